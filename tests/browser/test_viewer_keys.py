"""The page by keys, parts that can be resized, and what a selection and a kernel's name show."""

import json

import pytest


def mangled(n):
    """As a compiler of AMD's writes a kernel with the template argument n among others."""

    def nested(*words):
        return "N" + "".join(f"{len(word)}{word}" for word in words)

    values = f"LNS_8PipelineE1ELi{n}ELb0ELNS_9SchedulerE0E"
    inner = f"NS_25GridwiseGemm_xdl_cshuffleI{nested('layout', 'RowMajor')}EtDF16b{values}EE"
    return f"_Z{nested('ck', 'device', 'kernel_grouped_conv_fwd_xdl_cshuffle')}I{inner}EEvT_"


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def trace(tmp_path):
    """Eleven steps of 100 us, #8 of 300; in each an operator, which takes 10 + n us, in #8 150."""
    events, at = [], 0
    for n in range(11):
        long = 300 if n == 8 else 100
        events.append(event("user_annotation", f"ProfilerStep#{n}", 1, 1, at, long - 5))
        events.append(event("cpu_op", "aten::outer", 1, 1, at + 5, 150 if n == 8 else 10 + n))
        at += long
    for n, at in ((64, 0), (128, 500)):
        events.append(event("kernel", mangled(n), 0, 7, at, 20, stream=7, device=0))
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def window(page):
    return [float(page.evaluate(f"new URLSearchParams(location.hash.split('?')[1]).get('{k}')")) for k in ("t0", "t1")]


@pytest.mark.brief
def test_the_timeline_by_keys_alone(view, open_page, until, trace):
    p = open_page(view(trace).url).go("#/timeline?t0=100000&t1=500000")
    p.page.keyboard.press("Tab")
    assert p.page.evaluate("document.activeElement.textContent") == "skip to the page"
    assert p.page.evaluate("getComputedStyle(document.querySelector('.skip')).opacity") == "1"
    p.page.keyboard.press("Enter")
    assert p.page.evaluate("document.activeElement.className") == "rows"
    p.page.keyboard.press("w")  # half of the time, about the same middle
    p.rest()
    assert window(p.page) == [200000, 400000]
    p.page.keyboard.press("d")
    p.rest()
    assert window(p.page) == [230000, 430000]
    p.page.keyboard.press("s")
    p.rest()
    assert window(p.page) == [130000, 530000]
    p.page.keyboard.press("ArrowDown")  # nothing is chosen: the first in view
    p.page.wait_for_selector(".details h3")
    assert p.page.inner_text(".details h3") == "ProfilerStep#1"
    p.page.keyboard.press("ArrowDown")
    until(p.page, "document.querySelector('.details h3').textContent === 'aten::outer'")
    p.page.keyboard.press("Enter")
    assert p.page.evaluate("document.activeElement.className") == "details"
    p.page.keyboard.press("Escape")
    assert p.page.evaluate("document.activeElement.className") == "rows"
    p.page.keyboard.press("Escape")
    p.page.keyboard.press("Enter")  # the view has moved to what was chosen: now the first step is in it
    until(p.page, "document.querySelector('.details h3').textContent === 'ProfilerStep#0'")
    assert p.errors == []


def test_a_step_is_compared_with_the_median_one(view, open_page, until, trace):
    p = open_page(view(trace).url).go("#/timeline?step=8")
    p.page.get_by_role("button", name="against the median step, #").click()
    until(p.page, "document.querySelector('#aggregate-table th')?.parentElement.textContent.includes('longer by')")
    heads = p.page.locator("#aggregate-table thead tr").first.locator("th").all_inner_texts()
    row = p.page.locator("#aggregate-table tbody tr", has_text="aten::outer").locator("td").all_inner_texts()
    shown = dict(zip(heads, row, strict=True))
    median = p.page.get_by_role("button", name="against the median step").inner_text().split("#")[1]
    assert float(shown["longer by, us"]) == 150 - (10 + int(median))
    assert float(shown[f"in step {median}, us"]) == 10 + int(median)
    again = open_page(p.url).go(p.page.evaluate("location.hash"))
    until(again.page, "document.querySelector('#aggregate-table')?.textContent.includes('longer by')")
    p.page.evaluate(f"location.hash = '#/timeline?step={median}'")
    p.page.wait_for_selector("#aggregate-table")
    assert p.page.get_by_role("button", name="against the median step").count() == 0


def test_the_parts_of_the_timeline_can_be_resized(view, open_page, trace):
    p = open_page(view(trace).url).go("#/timeline?step=8")
    p.page.wait_for_selector("#aggregate-table")
    line = p.page.get_by_role("separator", name="height of the sums")
    box, before = line.bounding_box(), p.page.locator(".area").bounding_box()["height"]
    p.page.mouse.move(box["x"] + 200, box["y"] + 2)
    p.page.mouse.down()
    p.page.mouse.move(box["x"] + 200, box["y"] + 2 - 90, steps=3)
    p.page.mouse.up()
    assert abs(p.page.locator(".area").bounding_box()["height"] - before - 90) <= 2
    line.focus()
    p.page.keyboard.press("ArrowDown")
    assert abs(p.page.locator(".area").bounding_box()["height"] - before - 66) <= 2
    p.page.locator(".timeline .rows").focus()
    p.page.keyboard.press("Enter")
    p.page.wait_for_selector(".details h3")
    wide = p.page.locator(".details").bounding_box()["width"]
    p.page.get_by_role("separator", name="width of the details").focus()
    p.page.keyboard.press("ArrowLeft")
    assert abs(p.page.locator(".details").bounding_box()["width"] - wide - 24) <= 2


def test_on_a_narrow_screen_rows_and_details_share_the_height(view, open_page, trace):
    p = open_page(view(trace).url, width=400).go("#/timeline")
    p.page.locator(".timeline .rows").focus()
    p.page.keyboard.press("Enter")
    p.page.wait_for_selector(".details h3")
    rows, details = (p.page.locator(query).bounding_box() for query in (".timeline .rows", ".details"))
    assert rows["width"] == details["width"] and rows["height"] > 250 and details["height"] > 250


def test_the_rows_that_are_selected_stay_in_sight(view, open_page, until, tmp_path):
    """The sums take the lower part of the page, where the rows are over which the pointer was drawn."""
    events = [event("cpu_op", f"op{tid}", 1, tid, 10 * n, 8) for tid in range(40) for n in range(5)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    p = open_page(view(path).url).go("#/timeline")
    box = p.page.locator(".timeline .rows").bounding_box()
    y = box["y"] + box["height"] - 40
    p.page.keyboard.down("Shift")
    p.page.mouse.move(box["x"] + 300, y)
    p.page.mouse.down()
    p.page.mouse.move(box["x"] + 900, y, steps=4)
    p.page.mouse.up()
    p.page.keyboard.up("Shift")
    p.page.wait_for_selector("#aggregate-table")
    p.rest()
    now = p.page.locator(".timeline .rows").bounding_box()
    scrolled = p.page.evaluate("document.querySelector('.timeline .rows').scrollTop")
    assert now["height"] < box["height"] - 100
    assert y - box["y"] - scrolled < now["height"]  # where the pointer was, now


def test_kernels_are_told_apart_and_a_long_name_leaves_room(view, open_page, trace):
    p = open_page(view(trace).url).go("#/kernels")
    names = [t for t in p.page.locator("#kernels-table tbody td.name .cell").all_inner_texts() if "_conv_" in t]
    assert len(set(names)) == 2 and all(len(name) <= 64 for name in names)
    assert any("128" in name for name in names) and all(name.startswith("kernel_grouped_conv_fwd") for name in names)
    p.page.locator("#kernels-table tbody tr", has_text="128").click()
    p.page.wait_for_selector(".details h3")
    assert p.page.inner_text(".details h3").startswith("kernel_grouped_conv_fwd_xdl_cshuffle<GridwiseGemm")
    assert not p.page.locator(".details .whole").is_visible()
    p.page.get_by_text("whole name").click()
    assert p.page.inner_text(".details .whole") in (mangled(64), mangled(128))


def test_names_of_the_compiler_become_readable(view, open_page, trace):
    """The output of c++filt, without namespaces and parameters, and _ for what is named again."""
    p = open_page(view(trace).url).go("#/losses")
    cases = {
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb1EEEvPT_": (
            "add_rmsnorm_quant_kernel<bf16, bf16, 256, 16, false, true>"
        ),
        "_ZN2ns4pairIiNS_5InnerIfLin3EEEEE": "pair<int, Inner<float, -3>>",
        "_Z4funcIN1a1b1cENS0_1dELNS_4EnumE2EEvv": "func<c, d, 2>",
        "_ZN1a1fEv": "f",
    }
    found = p.page.evaluate(
        """async (names) => {
          const {readMangled} = await import("./model/mangled.js");
          return names.map((name) => readMangled(name));
        }""",
        list(cases),
    )
    assert dict(zip(cases, found, strict=True)) == cases
    took = p.page.evaluate(
        """async () => {
          const {readMangled} = await import("./model/mangled.js"), begin = performance.now();
          for (const name of ["_Z", "_ZN", "_Z99999999999999x", "_ZN" + "9".repeat(1e5), "_ZN1aI" + "I".repeat(1e5),
                              "_ZN1a" + "E".repeat(1e5), "_Z1fILS" + "S_".repeat(1e5)]) readMangled(name);
          return performance.now() - begin;
        }"""
    )
    assert took < 2000
