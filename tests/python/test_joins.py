"""A question about all ranks of a folder that is read rank by rank answers as it does with all of them in memory."""
import json
import math
import subprocess

import pytest
import tachograph as tg

import traces

BLANKS = 17 << 20  # a file of blanks beside the ranks, which is no trace, makes the folder one that is read rank by rank
QUESTIONS = {
    "overview": [""], "steps": ["step", "summary", "whole"], "tracks": [""], "events": ["slice", "mark"], "document": [""], "annotations": [""],
    "gaps": ["gap", "cause"], "breakdown": ["rank", "device"], "overlap": ["rank", "step"], "kernel_types": ["rank", "all"],
    "kernel_breakdown": [""], "idle": ["stream", "cause", "interval"], "queue": ["summary", "series"], "copy_bandwidth": ["summary", "op"],
    "device_metrics": ["device"], "totals": ["rank", "track"], "mfu": ["rank"], "memory": ["device", "time", "op"], "memory_blocks": ["block", "op"],
    "memory_ops": [""], "memory_history": [""], "memory_state": [""], "memory_stacks": [""], "memory_stats": [""], "op_kernels": ["sequence", "call"],
    "sequences": ["pattern", "event"], "call_graph": [""], "forward_backward": ["call"], "critical_path": ["op", "edge"], "launches": ["call", "event"],
    "launch_stats": ["kernel", "event"], "ops": ["name", "shape", "step", "module"], "kernels": ["name", "op", "config", "stream"], "stacks": ["line", "stack"],
    "op_classes": [""], "top": [""], "roofline": ["name", "kind", "kernel"], "key_averages": ["name", "shape+overload", "event", "step"],
}


@pytest.fixture(scope="module", params=range(3))
def folders(request, tmp_path_factory):
    """The same ranks twice: (in a folder that fits into memory, in one that is read rank by rank)."""
    ranks = traces.build(1000 + request.param, ranks=3, size=150, grain=(1, 7, 1000)[request.param], steps=(2, 3, 0)[request.param])
    made = []
    for name in ("small", "large"):
        folder = tmp_path_factory.mktemp(name)
        traces.write(ranks, folder, 1, plain=True)
        (folder / "zz.json").write_bytes(b" " * (BLANKS if name == "large" else 10))
        made.append(folder)
    return made


def answer(trace, question, by, **more):
    try:
        rows = trace.ask(question, **({"by": by} if by else {}), **more).to_dicts()
    except tg.TachographError as e:
        assert e.code == "NO_DATA"
        return None
    rows = [r for r in rows if (question, r.get("quantity")) != ("overview", "skipped_file")]  # all together, the first rank has it
    for row in rows:
        row.pop("text", None)  # of overview: the path
        row.pop("ridge", None)  # rank by rank it is that of the rank's own device, as are the next two
        row.pop("bound", None)
        row.pop("peak_pct", None)
    return rows


def key(row):
    return json.dumps([f"{v:.9g}" if isinstance(v, float) else v for v in row.values()])


def compare(one, other):
    assert len(one) == len(other)
    for a, b in zip(sorted(one, key=key), sorted(other, key=key)):
        for name in a:
            if isinstance(a[name], float) and isinstance(b[name], float):
                assert math.isclose(a[name], b[name], rel_tol=1e-11, abs_tol=1e-9), (name, a, b)
            else:
                assert a[name] == b[name], (name, a, b)


@pytest.mark.parametrize("question", QUESTIONS)
def test_rank_by_rank_is_as_all_together(folders, question):
    small, large = map(tg.open, folders)
    for by in QUESTIONS[question]:
        whole, joined = answer(small, question, by), answer(large, question, by)
        assert (whole is None) == (joined is None)
        if whole is not None:
            table = large.ask(question, **({"by": by} if by else {}))
            if "rank" in table.columns and any("left out" in note for note in table.notes):
                whole = [r for r in whole if r["rank"] in {j["rank"] for j in joined}]  # no row of zeros for a rank without such data
            compare(whole, joined)


@pytest.mark.parametrize("question,order", [("ops", "self_device_ns"), ("kernels", "total_ns"), ("top", "total_ns"), ("stacks", "self_cpu_ns")])
def test_what_costs_most_is_on_top(folders, question, order):
    rows = answer(tg.open(folders[1]), question, "")
    assert rows is None or [r[order] for r in rows] == sorted((r[order] for r in rows), reverse=True)


def test_rows_are_chosen_after_they_are_one(folders):
    """No rank by itself has as many calls as all together, and what is chosen by that must see the sum."""
    small, large = map(tg.open, folders)
    most = max(r["calls"] for r in answer(small, "ops", ""))
    assert answer(large, "ops", "", where=f"calls = {most}") == answer(small, "ops", "", where=f"calls = {most}") != []
    assert len(answer(large, "ops", "", limit=2, sort="calls desc")) == 2


def test_the_command_line_answers_in_one_reading(folders, tachograph_path):
    def ask(folder, *words):
        run = subprocess.run([tachograph_path, "ask", str(folder), *words, "--json"], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        table = json.loads(run.stdout)
        return [dict(zip([c["name"] for c in table["columns"]], row)) for row in table["rows"]], table["losses"]
    for words in (("ops",), ("events", "--where", "rank = 1 and dur_ns > 3000"), ("events", "--where", "dur_ns > 3000", "--sort", "dur_ns desc, id asc", "--limit", "7"),
                  ("kernels", "--by", "op"), ("tracks",), ("key_averages",), ("events", "--limit", "5")):
        (small, lost), (large, lost_too) = (ask(f, *words) for f in folders)
        compare(small, large)
        assert lost == lost_too and [loss["name"] for loss in lost] == ["skipped_file"]


def test_a_file_that_is_no_trace_is_named(folders):
    for folder in folders:
        files = [r for r in tg.open(folder).ask("losses") if r["loss"] == "skipped_file"]
        assert [(r["rank"], r["file"], r["kind"], r["count"]) for r in files] == [(None, str(folder / "zz.json"), "file", 1)]
        assert "nothing but blanks" in files[0]["meaning"]
        assert "1 file not read (zz.json)" in tg.open(folder).report()
