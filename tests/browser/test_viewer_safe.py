"""What comes from a trace, a filter or an address cannot hold the page up, run in a spreadsheet, or be taken for
something else."""

import csv
import io
import json

import pytest

SLOW = "a" * 40 + "!"  # (a+)+$ takes a browser's own regular expressions hours


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def trace(tmp_path):
    names = [SLOW, "=cmd|'/c calc'!A0", "-1+1", "@sum", "+x", *(f"aten::op{n}" for n in range(20))]
    events = [event("cpu_op", name, 1, 1, 100 * i, 10 + i) for i, name in enumerate(names)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.brief
def test_a_pattern_in_the_address_or_in_a_filter_cannot_freeze_the_page(view, open_page, until, trace):
    p = open_page(view(trace).url).go("#/operators?f.name=%2F%28a%2B%29%2B%24%2F")
    p.page.wait_for_selector("#operators-table")
    assert p.page.evaluate("1 + 1") == 2  # the tab answers
    count = p.page.locator(".table-tools .muted").first
    assert count.inner_text() == "0 of 25 rows"  # the name ends with another character
    box = p.page.get_by_label("filter name")
    for text, words in {
        "/(a|a)*!$/": "1 of 25 rows",
        "/^aten::op(1|2)$/": "2 of 25 rows",
        "/OP[3-5]$/": "3 of 25 rows",
        "/(?=a)/": "25 rows; the filter /(?=a)/ is not understood",
        "op7": "1 of 25 rows",
    }.items():
        box.fill(text)
        until(p.page, f"document.querySelector('.table-tools .muted').textContent === {json.dumps(words)}", 5)
    assert p.errors == []


def test_the_page_in_a_file_searches_within_bounds_too(tachograph, open_page, until, trace, tmp_path):
    target = tmp_path / "t.html"
    assert tachograph("export", trace, "--to", "html", "-o", target).returncode == 0
    p = open_page(target.as_uri())
    p.go("#/timeline?find=%2F%28a%2B%29%2B%24%2F")
    until(p.page, "document.querySelector('.timeline [role=status]').textContent === 'no hit'", 5)
    p.page.fill("#find", "/(?=a)/")
    until(p.page, "document.querySelector('.timeline [role=status]').textContent.includes('no pattern')", 5)


def test_patterns_match_what_the_browsers_own_do(view, open_page, trace):
    """Against RegExp on random patterns of the same language, and where there is no match to a pattern."""
    p = open_page(view(trace).url).go("#/losses")
    differ = p.page.evaluate(
        """async () => {
          const {compile} = await import("./model/pattern.js");
          let seed = 7;
          const random = (k) => (seed = (seed * 1103515245 + 12345) % 2147483648) % k;
          const make = (depth) => {
            const k = random(9);
            if (depth <= 0 || k < 3) return ["a", "B", "c", "[ab]", "[^c]", "."][random(6)];
            if (k < 7) return `(${make(depth - 1)}${["|" + make(depth - 1) + ")", ")*", ")?", ")+"][k - 3]}`;
            return make(depth - 1) + make(depth - 1);
          };
          const differ = [];
          for (let i = 0; i < 5000; i++) {
            const text = Array.from({length: random(9)}, () => "abC"[random(3)]).join("");
            const pattern = (random(4) ? "" : "^") + make(4) + (random(4) ? "" : "$");
            if (compile(pattern).test(text) !== new RegExp(pattern, "i").test(text)) differ.push([pattern, text]);
          }
          const refused = ["a{2}", "(a", "a)", "*", "\\\\1", "(?=a)", "[a", "\\\\", "x".repeat(201)];
          return [...differ, ...refused.filter((pattern) => compile(pattern))];
        }"""
    )
    assert differ == []


def test_a_spreadsheet_runs_nothing_of_a_copied_table(view, open_page, trace):
    p = open_page(view(trace).url)
    p.page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => { globalThis.copied = t; }}})"
    )
    p.go("#/operators")
    p.page.get_by_role("button", name="copy CSV").click()
    rows = list(csv.reader(io.StringIO(p.page.evaluate("copied"))))
    names = {row[0] for row in rows[1:]}
    assert {"'=cmd|'/c calc'!A0", "'-1+1", "'@sum", "'+x", SLOW, "aten::op3"} <= names
    assert all(float(cell) >= 0 for row in rows[1:] for cell in row[1:])  # numbers stay numbers


def test_an_address_with_a_page_that_is_none_says_so(view, open_page, trace):
    p = open_page(view(trace).url).go("#/constructor")
    assert p.page.inner_text("h1") == "There is no such page"
    assert p.page.locator("nav a[aria-current=page]").count() == 0 and p.errors == []


def test_the_address_of_the_second_trace_shows_its_name_and_counts(view, open_page, until, trace, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::mm", 1, 1, 0, 5)]}))
    viewer = view(trace, other)
    p = open_page(viewer.url).go("#/operators")
    until(p.page, "document.querySelector('#top .facts').textContent.includes('25 slices')")
    p.page.evaluate("location.hash = '#/operators?trace=1'")
    until(p.page, "document.querySelector('#top .facts').textContent.includes('1 slices')")
    assert p.page.evaluate("document.querySelector('#top select').selectedOptions[0].text") == "other.json"
    assert p.page.title().startswith("other.json")
    q = open_page(viewer.url).go("#/operators?trace=1")
    until(q.page, "document.querySelector('#top .facts').textContent.includes('1 slices')")


def test_pages_without_data_are_grey_and_say_why(view, open_page, until, trace):
    p = open_page(view(trace).url).go("#/overview")
    until(p.page, "document.querySelector('nav a.empty-page') !== null")
    grey = p.page.locator("nav a.empty-page").all_inner_texts()
    assert {"Kernels", "Memory", "Modules", "Diff"} <= set(grey) and not {"Operators", "Timeline"} & set(grey)
    assert "device" in p.page.locator("nav a.empty-page", has_text="Kernels").get_attribute("title")


def test_a_tooltip_goes_with_what_it_is_about(view, open_page, until, trace):
    p = open_page(view(trace).url).go("#/timeline")
    box = p.page.locator(".timeline .rows").bounding_box()
    for x in range(205, 700, 3):
        p.page.mouse.move(box["x"] + x, box["y"] + 65)
        if p.page.evaluate("document.querySelector('.tip') !== null && !document.querySelector('.tip').hidden"):
            break
    assert p.page.locator(".tip").is_visible()
    p.page.evaluate("location.hash = '#/losses'")  # by the address: the pointer does not move
    p.ready()
    assert not p.page.locator(".tip").is_visible()
