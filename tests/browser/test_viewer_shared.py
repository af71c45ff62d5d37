"""The pages on real traces: the figures of `tachograph ask`, and the questions that need them. The traces lie beside
the repository, or where SHARED says; without them these tests are skipped."""

import csv
import json
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = pathlib.Path(os.environ.get("SHARED") or ROOT.parent / "shared") / "traces"
FILES = [p for p in TRACES.glob("*/*.json*") if p.parent.name not in ("malformed", "exectrace_simple_add")]
pytestmark = pytest.mark.skipif(not FILES, reason=f"no traces in {TRACES}")
QUESTIONS = {"operators": "ops", "kernels": "kernels", "modules": "modules"}


def name_of(path):
    return str(path.relative_to(TRACES))


def rows_of(page):
    """The table of the page as someone copies it."""
    page.get_by_role("button", name="copy CSV").first.click()
    return list(csv.DictReader(page.evaluate("navigator.clipboard.readText()").splitlines()))


@pytest.mark.parametrize("path", sorted(FILES), ids=name_of)
def test_pages_show_what_ask_says(path, view, open_page, tachograph):
    p = open_page(view(path).url)
    p.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for page, question in QUESTIONS.items():
        answer = json.loads(tachograph("ask", path, question, "--json").stdout)
        p.go(f"#/{page}")
        if "error" in answer:
            assert answer["error"]["text"] in p.page.inner_text("#page")
            continue
        names = [c["name"] for c in answer["columns"]]
        rows = rows_of(p.page) if answer["rows"] else []
        assert len(rows) == len(answer["rows"])
        for row, want in zip(rows, answer["rows"], strict=True):
            for name, text in row.items():
                value = want[names.index(name)]
                if isinstance(value, int) and not isinstance(value, bool):
                    assert text == str(value), (page, name)
    assert p.errors == []


def test_the_timeline_has_every_slice_and_the_memory(view, open_page, tachograph):
    path = TRACES / "train_v100_nccl" / "rank-1.json.gz"
    p = open_page(view(path).url).go("#/timeline")
    info = p.page.evaluate("tachograph.info()")
    tracks = json.loads(tachograph("ask", path, "tracks", "--columns", "track,slices", "--json").stdout)["rows"]
    shown = {t["track"]: t["slices"] for t in info["tracks"] if t["kind"] not in ("counter", "marks")}
    assert shown == {track: slices for track, slices in tracks if slices}
    memory = json.loads(tachograph("ask", path, "memory", "--json").stdout)
    names = [c["name"] for c in memory["columns"]]
    peak = next(dict(zip(names, row, strict=True)) for row in memory["rows"] if "GPU1" in row)
    most = {t["name"]: t["max"] for t in info["tracks"] if t["kind"] == "counter"}
    assert most["GPU1 allocated"] == peak["peak_allocated_bytes"]
    assert most["GPU1 reserved"] == peak["peak_reserved_bytes"]


# ---- tasks that need a real trace: one action each counts -------------------------------------------------


def test_what_the_cpu_did_while_the_device_was_idle(view, open_page):
    p = open_page(view(TRACES / "train_v100_nccl" / "rank-1.json.gz").url).go("#/overview")
    p.page.get_by_role("link", name="% idle").click()  # 1
    p.page.wait_for_selector("#ask-table")
    p.ready()
    assert "host" in p.page.inner_text("#ask-table") or "launch" in p.page.inner_text("#ask-table")


def test_which_rank_is_late_and_what_it_does_longer(view, open_page):
    """Rank 1 sleeps 4 ms a step on the host."""
    p = open_page(view(TRACES / "multirank_gloo2").url).go("#/overview")
    p.page.get_by_role("link", name="Ranks", exact=True).click()  # 1
    p.page.wait_for_selector("#stragglers-table")
    first = p.page.locator("#stragglers-table tbody tr").first.inner_text().split("\t")
    assert first[:2] == ["1", "1"] and "host" in first
    assert "rank 1 comes last" in p.page.inner_text("#page")


def test_is_b_faster_and_is_it_noise(view, open_page, tachograph):
    pair = [TRACES / "diff_bert_h100_mi300" / f"{name}.json.gz" for name in ("h100", "mi300")]
    p = open_page(view(*pair).url).go("#/overview")
    p.page.get_by_role("link", name="Diff").click()  # 1
    p.page.wait_for_selector("#diff-table")
    said = json.loads(tachograph("diff", *pair, "--json").stdout)["notes"][0]
    assert p.page.inner_text("#diff .verdict") == said


def test_what_holds_the_memory_at_the_peak(view, open_page):
    p = open_page(view(TRACES / "train_v100_nccl" / "rank-1.json.gz").url).go("#/overview")
    p.page.locator("#nav").get_by_role("link", name="Memory").click()  # 1
    p.page.wait_for_selector("#memory-peak")
    assert p.page.locator("#memory-peak tbody tr").count() > 0
    assert "activation" in p.page.inner_text("#memory-categories")


def test_progress_says_how_much_and_how_long(view, open_page):
    p = open_page(view(FILES[0]).url).go("#/overview")
    state = """(done) => tachograph.event({event: "state", result: {traces: [{...tachograph.shared.traces[0],
      state: "reading", bytes: 1000 * 2 ** 20, bytes_done: done * 2 ** 20}]}})"""
    p.page.evaluate(state, 100)
    p.page.wait_for_timeout(1000)
    p.page.evaluate(state, 200)
    line = p.page.inner_text("#top [role=status]")
    assert line.startswith("200 MiB of 1000 MiB read, about ") and line.endswith(" s left")
    assert 4 <= int(line.split("about ")[1].split()[0]) <= 9  # 800 MiB at 100 MiB a second and a little
    assert p.page.get_attribute("#top [role=progressbar]", "aria-valuenow") == "20"
