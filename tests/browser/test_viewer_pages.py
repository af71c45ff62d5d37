"""Every page of the viewer opens, fits, shows the numbers of `tachograph ask`, and says what is missing."""

import csv
import json
from urllib.parse import quote

import pytest

PAGES = [
    "overview",
    "findings",
    "timeline",
    "operators",
    "kernels",
    "modules",
    "stacks",
    "memory",
    "ranks",
    "roofline",
    "diff",
    "losses",
    "ask",
    "sql",
]

CLIPPED = """() => {
  const out = [];
  for (const e of document.querySelectorAll("#top *, #nav *, h1, h2, .verdict, .finding *, .tools *, .facts-table td")) {
    const r = e.getBoundingClientRect();
    if (r.width && (r.right > innerWidth + 1 || r.left < -1) && !e.closest(".table, .menu, #nav")) out.push(e.className || e.tagName);
  }
  return out;
}"""


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_page_opens_fits_and_reports_no_error(shared_view, open_page, page, width):
    p = open_page(shared_view.url, width=width).go(f"#/{page}")
    assert p.errors == []
    assert p.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert p.page.evaluate(CLIPPED) == []
    assert p.page.locator("nav a[aria-current=page]").count() == 1


@pytest.mark.parametrize("page", PAGES)
def test_nothing_moves_after_the_page_is_ready(shared_view, open_page, page):
    p = open_page(shared_view.url)
    p.page.add_init_script(
        """globalThis.shifts = []; let ready = Infinity;
        new MutationObserver(() => { if (document.body?.dataset.ready === "true") ready = Math.min(ready, performance.now()); })
          .observe(document, {attributes: true, subtree: true, attributeFilter: ["data-ready"]});
        new PerformanceObserver((list) => { for (const e of list.getEntries()) if (e.startTime > ready) shifts.push(e.value); })
          .observe({type: "layout-shift", buffered: true});"""
    )
    p.go(f"#/{page}")
    p.rest(300)
    assert p.page.evaluate("shifts") == []


def shown(value, unit, divisor):
    """The text of a cell, worked out here: three significant digits, groups of three from 10,000 on."""
    if value is None:
        return ""
    if divisor == 1 and value == int(value) and unit != "%":
        digits = str(abs(int(value)))
        if len(digits) > 4:
            digits = "\u202f".join(reversed([digits[max(0, i - 3) : i] for i in range(len(digits), 0, -3)]))
        return ("−" if value < 0 else "") + digits
    return None


@pytest.mark.brief
@pytest.mark.parametrize(("page", "question"), [("operators", "ops"), ("kernels", "kernels"), ("modules", "modules")])
def test_tables_show_what_ask_says(shared_view, open_page, tachograph, page, question):
    answer = json.loads(tachograph("ask", shared_view.files[0], question, "--json").stdout)
    p = open_page(shared_view.url).go(f"#/{page}")
    if "error" in answer:
        assert answer["error"]["text"] in p.page.inner_text("#page")
        return
    p.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    p.page.get_by_role("button", name="copy CSV").first.click()
    lines = p.page.evaluate("navigator.clipboard.readText()").splitlines()
    names = [c["name"] for c in answer["columns"]]
    heads = lines[0].split(",")
    assert set(heads) <= set(names)
    assert len(lines) - 1 == len(answer["rows"])
    whole = [n for n in heads if answer["columns"][names.index(n)]["type"] == "int"]
    for row, want in zip(csv.DictReader(lines), answer["rows"], strict=True):
        for name in whole:
            value = want[names.index(name)]
            assert row[name] == ("" if value is None else str(value))
    calls = answer["columns"][names.index("calls")]
    first = p.page.locator(f"#{page}-table tbody tr").first.locator("td").nth(heads.index("calls")).inner_text()
    assert first == shown(answer["rows"][0][names.index("calls")], calls["unit"], 1)


def copied(p, table):
    """The CSV of a table of the page as [{column: text}]."""
    p.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    section = p.page.locator("section", has=p.page.locator(f"#{table}")).last
    section.get_by_role("button", name="copy CSV").click()
    return list(csv.DictReader(p.page.evaluate("navigator.clipboard.readText()").splitlines()))


def check_table(p, table, answer, by):
    """Every whole number and text of the page's table against the answer's, row by row of the key."""
    names = [c["name"] for c in answer["columns"]]
    want = {str(row[names.index(by)]): dict(zip(names, row, strict=True)) for row in answer["rows"]}
    rows = copied(p, table)
    assert sorted(row[by] for row in rows) == sorted(want)
    for row in rows:
        for column in answer["columns"]:
            value = want[row[by]][column["name"]]
            if column["name"] in row and column["type"] != "real":
                assert row[column["name"]] == ("" if value is None else str(value)), column


TABLES = [
    ("stacks", "stacks-table", ["stacks", "--by", "line"], "name", "python_stacks.json"),
    ("memory", "memory-devices", ["memory"], "device", "memory_training.json"),
    ("memory", "memory-categories", ["memory", "--by", "category"], "category", "memory_training.json"),
    ("memory", "memory-ops", ["memory_ops"], "op", "memory_training.json"),
    ("ranks", "ranks-table", ["ranks"], "rank", "two_ranks"),
    ("ranks", "stragglers-table", ["stragglers"], "rank", "two_ranks"),
    ("ranks", "collectives-table", ["collectives"], "kind", "two_ranks"),
]


@pytest.mark.parametrize(("page", "table", "question", "by", "trace"), TABLES)
def test_pages_of_several_tables_show_what_ask_says(
    view, open_page, tachograph, traces, page, table, question, by, trace
):
    answer = json.loads(tachograph("ask", traces / trace, *question, "--limit", "all", "--json").stdout)
    assert answer["rows"]
    check_table(open_page(view(traces / trace).url).go(f"#/{page}"), table, answer, by)


def test_findings_show_what_ask_says(view, open_page, tachograph, traces):
    answer = json.loads(tachograph("ask", traces / "gpu_training.json", "findings", "--json").stdout)
    names = [c["name"] for c in answer["columns"]]
    p = open_page(view(traces / "gpu_training.json").url).go("#/findings")
    articles = p.page.locator("#findings-list article")
    assert articles.count() == len(answer["rows"]) > 0
    for i, values in enumerate(answer["rows"]):
        row, text = dict(zip(names, values, strict=True)), articles.nth(i).inner_text()
        for part in ("severity", "cause", "evidence", "advice", "where", "method"):
            assert (row[part] or "") in text, part


def test_the_peak_of_memory_is_the_same_on_both_pages(view, open_page, tachograph, traces):
    """3.07 kB = 3 KiB, which the allocator of memory_events.json reports."""
    answer = json.loads(tachograph("ask", traces / "memory_events.json", "memory", "--json").stdout)
    row = dict(zip([c["name"] for c in answer["columns"]], answer["rows"][0], strict=True))
    assert row["peak_allocated_bytes"] == 3072
    p = open_page(view(traces / "memory_events.json").url).go("#/overview")
    assert "peak 3 KiB allocated" in p.page.inner_text("#memory-short").replace("\u00a0", " ")
    p.go("#/memory")
    assert copied(p, "memory-devices")[0]["peak_allocated_bytes"] == "3072"


def test_a_known_device_has_its_roof(view, open_page, tmp_path):
    """An H100 SXM multiplies fp16 with 989 TFLOP/s on its matrix units (data sheet, dense)."""

    def slice_(cat, name, ts, dur, tid, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["c10::Half", "c10::Half"]}
    events = [
        slice_("cpu_op", "aten::mm", 10, 20, 1, **{"External id": 1, "Input Strides": [[512, 1], [512, 1]], **shapes}),
        slice_("cuda_runtime", "cudaLaunchKernel", 12, 2, 1, correlation=1),
        slice_("kernel", "hgemm", 20, 40, 7, device=0, stream=7, correlation=1),
    ]
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
    (tmp_path / "mm.json").write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    p = open_page(view(tmp_path / "mm.json").url).go("#/roofline")
    assert p.page.locator("#roofline-plot .roof").count() == 1
    assert p.page.locator("#roofline-plot .roof-label").text_content().replace("\u00a0", " ") == "989 TFLOP/s"


def test_the_address_holds_the_state(shared_view, open_page, until):
    p = open_page(shared_view.url).go("#/operators")
    p.page.get_by_role("button", name="calls").click()
    assert "sort=-calls" in p.page.url
    again = open_page(shared_view.url)
    again.page.goto(p.page.url)
    again.ready()
    column = "#operators-table tbody tr td:nth-child(2)"
    assert again.page.locator(column).all_inner_texts() == p.page.locator(column).all_inner_texts()
    p.page.get_by_role("link", name="Kernels").click()
    p.ready()
    p.page.go_back()
    until(p.page, "location.hash.startsWith('#/operators')")
    p.ready()
    assert p.page.locator("nav a[aria-current=page]").inner_text().startswith("Operators")


def test_theme_follows_the_address_and_the_system(shared_view, open_page):
    back = "getComputedStyle(document.body).backgroundColor"
    light = open_page(shared_view.url, theme="light").go("#/overview").page.evaluate(back)
    dark = open_page(shared_view.url, theme="dark").go("#/overview").page.evaluate(back)
    forced = open_page(shared_view.url, theme="light").go("#/overview?theme=dark").page.evaluate(back)
    assert light == "rgb(255, 255, 255)"
    assert dark == forced == "rgb(20, 23, 26)"


CONTRAST = """() => {
  const lum = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c; } return "rgb(255,255,255)"; };
  const out = [];
  for (const e of document.querySelectorAll("#app *")) {
    if (!e.childNodes.length || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.getBoundingClientRect().width || e.closest("svg")) continue;
    const a = lum(getComputedStyle(e).color), b = lum(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push([e.className || e.tagName, e.textContent.slice(0, 30), Math.round(ratio * 100) / 100]);
  }
  return out;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["overview", "findings", "operators", "timeline", "ask"])
def test_texts_have_contrast(shared_view, open_page, theme, page):
    assert open_page(shared_view.url, theme=theme).go(f"#/{page}").page.evaluate(CONTRAST) == []


UNNAMED = """() => [...document.querySelectorAll("button, a, input, select, textarea, [role=application], [role=grid], [role=img]")]
  .filter((e) => e.getBoundingClientRect().width)
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")))
  .map((e) => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("page", PAGES)
def test_everything_that_acts_has_a_name(shared_view, open_page, page):
    p = open_page(shared_view.url).go(f"#/{page}")
    assert p.page.evaluate(UNNAMED) == []


@pytest.mark.brief
def test_keys_walk_a_table(shared_view, open_page):
    p = open_page(shared_view.url).go("#/operators")
    p.page.locator("#operators-table table").focus()
    p.page.keyboard.press("ArrowDown")
    p.page.keyboard.press("ArrowDown")
    rows = p.page.locator("#operators-table tbody tr")
    assert rows.nth(1).get_attribute("aria-selected") == "true"
    name = rows.nth(1).locator("td").first.inner_text()
    p.page.keyboard.press("Enter")
    p.ready()
    assert p.page.url.split("#/")[1].startswith("timeline?")
    assert name.split("…")[0] in p.page.input_value("#find")


def test_a_filter_keeps_what_fits(shared_view, open_page):
    p = open_page(shared_view.url).go("#/operators")
    before = p.page.locator("#operators-table tbody tr").all_inner_texts()
    if len(before) <= 8:
        pytest.skip("the trace has too few operators for a filter row")
    wanted = before[0].split("\t")[0][:6]
    p.page.get_by_label("filter name").fill(wanted)
    after = p.page.locator("#operators-table tbody tr").all_inner_texts()
    assert after == [line for line in before if wanted.lower() in line.lower()]


@pytest.mark.brief
def test_a_question_without_an_answer_says_what_to_record(shared_view, open_page, tachograph):
    refused = tachograph("ask", shared_view.files[0], "segments", "--json")
    p = open_page(shared_view.url).go("#/ask?q=segments")
    if refused.returncode == 0:
        pytest.skip("the trace has segments")
    assert json.loads(refused.stdout)["error"]["text"] in p.page.inner_text("#page")


def test_a_query_shows_its_rows_and_one_that_never_ends_can_be_stopped(shared_view, open_page, until):
    p = open_page(shared_view.url).go("#/sql?sql=" + quote("SELECT count(*) AS n FROM slices"))
    if "no SQL" in p.page.inner_text("#page"):
        pytest.skip("a build without SQLite")
    assert p.page.locator("#sql-table tbody tr").count() == 1
    assert p.page.get_by_role("button", name="stop").count() == 0
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    p.page.get_by_label("SQL").fill(endless)
    p.page.get_by_role("button", name="run").click()
    p.page.get_by_role("button", name="stop").click()
    until(p.page, "document.querySelector('#sql-answer').innerText.includes('stopped')")
    assert p.page.get_by_role("button", name="stop").count() == 0
    p.go("#/operators")
    assert p.page.locator("#operators-table tbody tr").count() > 0


@pytest.mark.parametrize("width", [400, 1280])
def test_a_recording_and_what_is_said_of_it_fit(shared_view, open_page, width):
    """Both banners and the badge: nothing is covered, nothing runs over the edge."""
    p = open_page(shared_view.url, width=width).go("#/overview")
    p.page.evaluate(
        """() => { tachograph.event({event: "state", result: {traces: [{...tachograph.shared.traces[0], recording: true,
          read_ms_ago: 2100, remark: "the program has recorded nothing for 7 s"}]}});
          tachograph.event({event: "disconnected"}); }"""
    )
    boxes = p.page.evaluate(
        """[...document.querySelectorAll("#top, .banner, #page")].map((e) => e.getBoundingClientRect())
          .map((r) => [r.top, r.bottom])"""
    )
    assert len(boxes) == 4
    assert all(above[1] <= below[0] + 0.5 for above, below in zip(boxes, boxes[1:], strict=False))
    assert all(bottom - top > 20 for top, bottom in boxes)
    assert p.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert p.page.evaluate(CLIPPED) == []
