"""The page as one file: opened from disk, without a network, it shows the numbers of `tachograph ask`."""

import csv
import io
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page_file(tachograph_path, traces, tmp_path_factory):
    import subprocess

    source = max(traces.glob("*.json"), key=lambda f: f.stat().st_size)
    target = tmp_path_factory.mktemp("html") / "trace.html"
    subprocess.run([tachograph_path, "export", str(source), "--to", "html", "-o", str(target)], check=True)
    return source, target


@pytest.fixture
def offline(page_file, open_page):
    p = open_page(page_file[1].as_uri())
    p.page.route("http://**", lambda route: route.abort())
    p.page.route("https://**", lambda route: route.abort())
    return p


@pytest.mark.parametrize(
    "page",
    [
        *(pytest.param(page, marks=pytest.mark.brief) for page in ("overview", "timeline")),
        *("findings", "operators", "kernels", "modules", "stacks", "memory", "ranks", "losses"),
    ],
)
def test_every_page_opens_from_disk(offline, page):
    offline.go(f"#/{page}")
    assert offline.errors == []


@pytest.mark.parametrize(("page", "question"), [("operators", "ops"), ("kernels", "kernels")])
def test_tables_show_what_ask_says(offline, page_file, tachograph, page, question):
    answer = json.loads(tachograph("ask", page_file[0], question, "--json").stdout)
    offline.go(f"#/{page}")
    if "error" in answer:
        assert answer["error"]["text"] in offline.page.inner_text("#page")
        return
    text = offline.page.evaluate(
        "async (q) => { const t = await tachograph.answers.ask(0, q, {by: 'name'}); return t.rows.map((r) => r.map(String).join('\\u0001')); }",
        question,
    )
    assert text == [
        "\u0001".join("null" if v is None else json.dumps(v).strip('"') if not isinstance(v, str) else v for v in row)
        for row in answer["rows"]
    ]


@pytest.mark.brief
def test_slices_are_those_of_the_trace(offline, page_file, tachograph):
    answer = json.loads(tachograph("ask", page_file[0], "events", "--json").stdout)
    names = [c["name"] for c in answer["columns"]]
    events = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    first = min(e["start_ns"] for e in events)
    offline.go("#/timeline")
    held = offline.page.evaluate(
        "(() => { const s = tachograph.server; return s.rows.flatMap((row) => [...row.start].map((start, i) => [s.texts[row.name[i]], start, row.dur[i]])); })()"
    )
    assert sorted(map(tuple, held)) == sorted((e["name"], e["start_ns"] - first, e["dur_ns"]) for e in events)


def test_a_limit_keeps_whole_steps_and_says_so(page_file, tachograph, open_page, tmp_path):
    target = tmp_path / "small.html"
    done = tachograph("export", page_file[0], "--to", "html", "--bytes", "160", "-o", target)
    assert done.returncode == 0, done.stderr
    p = open_page(target.as_uri()).go("#/overview")
    held = p.page.evaluate("tachograph.server.rows.reduce((n, row) => n + row.start.length, 0)")
    assert held <= 20
    assert "the timeline holds the first" in p.page.inner_text("#top")


LOOK = """async ([row, level, count]) => {
  const out = [];
  for (let tile = 0; tile < count; tile++) {
    const {tiles: [t]} = await tachograph.server.tiles({trace: 0, level, tiles: [row, tile]});
    out.push(["column", "points", "min", "max", "last", "count", "name"].map((key) => [key, t[key] ? [...t[key]] : null]));
  }
  return JSON.stringify(out);
}"""


def test_counters_and_instants_of_the_file_are_those_of_the_server(tachograph, view, open_page, tmp_path):
    """10 ms in columns of 4.096 us, the smallest power of two of which 4096 hold them: 65 us apart none share one."""
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 10000}]
    for i in range(150):
        at = {"pid": 1, "tid": 1, "ts": 20 + 65 * i}
        events.append({"ph": "C", "name": "queue", "args": {"value": i % 7}, **at})
        events.append({"ph": "i", "s": "t", "name": f"mark {i % 3}", **at})
    source, target = tmp_path / "t.json", tmp_path / "t.html"
    source.write_text(json.dumps({"traceEvents": events}))
    assert tachograph("export", source, "--to", "html", "-o", target).returncode == 0
    served = open_page(view(source).url).go("#/timeline").page
    held = open_page(target.as_uri()).go("#/timeline").page
    tracks = [p.evaluate("tachograph.info().then((i) => i.tracks)") for p in (served, held)]
    assert tracks[0] == tracks[1]
    rows = {t["name"]: t["row"] for t in tracks[0] if t["kind"] in ("counter", "marks")}
    assert len(rows) == 2
    for row in rows.values():
        for level in (12, 13, 16, 20):
            count = -(-10_000_000 // (1024 << level))
            assert held.evaluate(LOOK, [row, level, count]) == served.evaluate(LOOK, [row, level, count])
    # one point a column where columns are narrower than the file's; its value is the one that was written
    (low,) = [json.loads(held.evaluate(LOOK, [rows["queue"], 8, 1]))[0]]
    assert dict(low)["last"] == [0, 1, 2, 3][: len(dict(low)["last"])] and len(dict(low)["last"]) == 4


@pytest.mark.brief
def test_a_size_that_is_none_is_refused(page_file, tachograph, tmp_path):
    done = tachograph("export", page_file[0], "--to", "html", "--bytes", "much", "-o", tmp_path / "x.html")
    assert done.returncode == 2
    assert "bytes=much is not a size" in done.stderr


@pytest.mark.brief
def test_a_reader_without_script_sees_the_report(page_file):
    text = page_file[1].read_text(encoding="utf-8")
    assert "<noscript><pre>" in text and "health" in text


@pytest.mark.brief
def test_columns_take_six_bytes_a_slice_at_most(tachograph, tmp_path):
    """100,000 slices of a training loop's shape: nested operators of varied lengths."""
    import base64
    import random
    import re

    rng = random.Random(3)
    events, ts = [], 0.0
    while len(events) < 100_000:
        length = rng.randrange(20, 400)
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"aten::op{rng.randrange(60)}",
                "pid": 1,
                "tid": 1,
                "ts": ts,
                "dur": length,
            }
        )
        at = ts
        for _ in range(rng.randrange(0, 4)):
            dur = rng.randrange(1, length // 5)
            events.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": f"aten::in{rng.randrange(60)}",
                    "pid": 1,
                    "tid": 1,
                    "ts": at + 0.125,
                    "dur": dur,
                }
            )
            at += dur + 1
        ts += length + rng.randrange(1, 30)
    source, target = tmp_path / "t.json", tmp_path / "t.html"
    source.write_text(json.dumps({"traceEvents": events}))
    assert tachograph("export", source, "--to", "html", "-o", target).returncode == 0
    slices = base64.b64decode(re.search(r'id="tg-slices">([^<]*)<', target.read_text(encoding="utf-8"))[1])
    assert len(slices) <= 6 * len(events)


def test_the_file_holds_every_module_and_every_row(offline, page_file, tachograph):
    modules = {p.relative_to(ROOT / "web").as_posix() for p in (ROOT / "web").rglob("*.js")}
    offline.go("#/operators")
    held = offline.page.evaluate("[...document.querySelectorAll('script[data-path]')].map((s) => s.dataset.path)")
    assert set(held) == modules
    answer = list(csv.reader(io.StringIO(tachograph("ask", page_file[0], "ops", "--format", "csv").stdout)))
    assert offline.page.locator("#operators-table tbody tr").count() == len(answer) - 1


def test_a_report_in_html_is_the_same_file(page_file, tachograph, tmp_path):
    target = tmp_path / "report.html"
    assert tachograph("report", page_file[0], "-o", target).returncode == 0
    assert target.read_text(encoding="utf-8") == page_file[1].read_text(encoding="utf-8")


def shown(p):
    """What someone sees of a state: the window, the chosen slice, the search, the table of the selection."""
    return p.page.evaluate(
        """() => ({
          details: document.querySelector(".details:not([hidden])")?.innerText ?? null,
          find: document.getElementById("find")?.value, hits: document.querySelector(".bar [role=status]")?.innerText,
          area: document.querySelector("#aggregate-table")?.innerText ?? null,
          window: ["t0", "t1"].map((k) => new URLSearchParams(location.hash.split("?")[1]).get(k))})"""
    )


@pytest.mark.parametrize("theme", ["", "&theme=dark"])
def test_the_address_of_a_view_shows_it_again(offline, page_file, open_page, until, theme):
    """Selection, chosen slice, search, window and theme: all from the part of the address behind #."""
    offline.go("#/overview")
    offline.page.evaluate("location.hash = '#/timeline'" + (f" + '?{theme[1:]}'" if theme else ""))
    offline.page.wait_for_selector(".timeline .rows")
    offline.ready()
    offline.page.fill("#find", "a")
    offline.page.keyboard.press("Enter")
    until(offline.page, "location.hash.includes('at=')")
    offline.page.locator(".timeline .rows").focus()
    for key in "mf":
        offline.page.keyboard.press(key)
    until(offline.page, "location.hash.includes('s0=') && document.querySelector('#aggregate-table') !== null")
    offline.rest()
    address, before = offline.page.evaluate("location.href"), shown(offline)
    assert before["details"] and before["area"] and before["find"] == "a" and before["window"][0] is not None
    again = open_page(address)
    again.go("")
    until(again.page, "document.querySelector('#aggregate-table') !== null")
    again.rest()
    after = shown(again)
    del before["hits"], after["hits"]  # walking says which hit it is
    assert after == before
    assert bool(theme) == (again.page.evaluate("document.documentElement.dataset.theme") == "dark")
    # filters and order of a table, a page by a link, and the way back
    again.page.get_by_role("link", name="Operators").click()
    again.page.wait_for_selector("#operators-table")
    again.page.locator("#operators-table th button").nth(1).click()
    until(again.page, "location.hash.includes('sort=')")
    rows = "[...document.querySelectorAll('#operators-table tbody tr')].map((r) => r.innerText)"
    sorted_rows, at = again.page.evaluate(rows), again.page.evaluate("location.href")
    third = open_page(at)
    third.go("")
    assert third.page.evaluate(rows) == sorted_rows
    again.page.go_back()
    again.page.wait_for_selector(".timeline .rows")
    assert offline.errors == again.errors == third.errors == []
