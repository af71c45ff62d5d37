"""A question on a trace that lacks what it is about: exit code 3, what is missing, and what to record; never an empty table that reads
as "there was none". Every question, on traces that hold one kind of thing each."""
import json
import re

import pytest


def slice_(category, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 0 if category == "kernel" else 1, "tid": tid, "args": args}


def kernel(name, ts, dur, correlation):
    return slice_("kernel", name, ts, dur, 7, device=0, stream=7, correlation=correlation)


OPERATORS = [slice_("cpu_op", "aten::mm", 10, 20), slice_("cpu_op", "aten::add", 40, 5)]
POOR = {
    "operators": OPERATORS,
    "one step": [slice_("user_annotation", "ProfilerStep#1", 0, 100), *OPERATORS],
    "kernels": [kernel("sgemm", 10, 20, 1), kernel("relu", 40, 5, 2)],
    "no steps": [slice_("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=1), slice_("cpu_op", "aten::mm", 2, 8), kernel("sgemm", 10, 20, 1)],
    "annotations": [slice_("user_annotation", "mine", 5, 2)],
    "frames": [slice_("python_function", "mine.py(1): f", 5, 2)],
}
# what says "recorded like this it would be there"
CURE = re.compile(r"record (with|a|while|more|them)|record_function\(|_dump_snapshot|prof\.step\(\)|open the folder|by=op|needs a recording|_experimental_config|experimental_config")
# answers that may be empty: nothing of the kind happened, or was looked for, in what was recorded
NONE_IS_AN_ANSWER = {"losses", "findings", "gaps", "copy_bandwidth", "sequences", "document", "key_averages"}


def questions(tachograph):
    return [name for name, _ in json.loads(tachograph("questions", "--json").stdout)["rows"]]


@pytest.mark.parametrize("poor", POOR)
def test_every_question_answers_or_says_what_to_record(tachograph, tmp_path, poor):
    path = tmp_path / "poor.json"
    path.write_text(json.dumps({"traceEvents": POOR[poor]}))
    for question in questions(tachograph):
        done = tachograph("ask", path, question, "--json")
        if done.returncode == 0:
            table = json.loads(done.stdout)
            assert table["rows"] or question in NONE_IS_AN_ANSWER, f"{question}: an empty table"
        else:
            error = json.loads(done.stdout)["error"]
            assert (done.returncode, error["code"]) == (3, "NO_DATA"), (question, done.stderr)
            assert CURE.search(error["text"]), f"{question}: {error['text']}"


@pytest.mark.parametrize("poor, holds", [
    ("operators", {"ops", "key_averages", "totals", "op_classes", "top", "steps", "critical_path", "call_graph", "call_stack"}),
    ("kernels", {"kernels", "breakdown", "idle", "kernel_types", "gaps", "top", "totals", "launches"}),
    ("annotations", {"annotations", "overview", "tracks", "events", "rows"}),
])
def test_what_is_there_is_answered(tachograph, tmp_path, poor, holds):
    path = tmp_path / "poor.json"
    path.write_text(json.dumps({"traceEvents": POOR[poor]}))
    for question in sorted(holds):
        assert tachograph("ask", path, question).returncode == 0, question


def test_a_rank_that_lacks_it_is_named(tachograph, tmp_path):
    for rank, events in enumerate([POOR["no steps"], OPERATORS]):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}))
    assert tachograph("ask", tmp_path, "kernels").returncode == 0
    done = tachograph("ask", tmp_path, "kernels", "--rank", "1")
    assert done.returncode == 3 and "rank 1 holds no device work" in done.stderr


@pytest.mark.parametrize("events, said", [([], "no events"), ([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}], "metadata only")])
def test_a_trace_without_events_is_no_trace(tachograph, tmp_path, events, said):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = tachograph("ask", path, "ops")
    assert done.returncode == 4 and said in done.stderr
