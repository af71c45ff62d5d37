"""A question on a trace that lacks what it is about: exit code 3, what is missing, and what to record; never an empty
table that reads as "there was none". Every question, on traces that hold one kind of thing each."""

import json
import re

import pytest


def slice_(category, name, ts, dur, tid=1, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": ts,
        "dur": dur,
        "pid": 0 if category == "kernel" else 1,
        "tid": tid,
        "args": args,
    }


def kernel(name, ts, dur, correlation):
    return slice_("kernel", name, ts, dur, 7, device=0, stream=7, correlation=correlation)


OPERATORS = [slice_("cpu_op", "aten::mm", 10, 20), slice_("cpu_op", "aten::add", 40, 5)]
POOR = {
    "operators": OPERATORS,
    "one step": [slice_("user_annotation", "ProfilerStep#1", 0, 100), *OPERATORS],
    "kernels": [kernel("sgemm", 10, 20, 1), kernel("relu", 40, 5, 2)],
    "no steps": [
        slice_("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=1),
        slice_("cpu_op", "aten::mm", 2, 8),
        kernel("sgemm", 10, 20, 1),
    ],
    "annotations": [slice_("user_annotation", "mine", 5, 2)],
    "frames": [slice_("python_function", "mine.py(1): f", 5, 2)],
    "host calls": [slice_("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=1)],
    "moments": [{"ph": "i", "name": "mark", "cat": "c", "pid": 1, "tid": 1, "ts": 5, "s": "t"}],
    "counters": [{"ph": "C", "name": "bytes", "pid": 1, "tid": 1, "ts": 5, "args": {"value": 3}}],
    "arrows": [
        {"ph": ph, "id": 1, "name": "ac2g", "cat": "ac2g", "pid": 1, "tid": 1, "ts": ts, "bp": "e"}
        for ts, ph in ((5, "s"), (9, "f"))
    ],
}
# what says "recorded like this it would be there"
CURE = re.compile(
    r"record (with|a|while|more|them)|record_function\(|_dump_snapshot|prof\.step\(\)|open the folder|by=op|needs a recording|_experimental_config|experimental_config"
)
# answers that may be empty: nothing of the kind happened, or was looked for, in what was recorded
NONE_IS_AN_ANSWER = {
    "losses",
    "findings",
    "gaps",
    "compiles",
    "compiled_kernels",
    "layers",
    "copy_bandwidth",
    "sequences",
    "document",
    "key_averages",
    "events",
    "syncs",
}


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
            assert table["rows"] or table["notes"] or question == "losses", (
                f"{question}: an empty table without a reason"
            )
        else:
            error = json.loads(done.stdout)["error"]
            assert (done.returncode, error["code"]) == (3, "NO_DATA"), (question, done.stderr)
            assert CURE.search(error["text"]), f"{question}: {error['text']}"


@pytest.mark.parametrize(
    "poor, holds",
    [
        (
            "operators",
            {
                "ops",
                "key_averages",
                "totals",
                "op_classes",
                "top",
                "steps",
                "critical_path",
                "call_graph",
                "call_stack",
            },
        ),
        ("kernels", {"kernels", "breakdown", "idle", "kernel_types", "gaps", "top", "totals", "launches"}),
        ("annotations", {"annotations", "overview", "tracks", "events", "rows"}),
    ],
)
def test_what_is_there_is_answered(tachograph, tmp_path, poor, holds):
    path = tmp_path / "poor.json"
    path.write_text(json.dumps({"traceEvents": POOR[poor]}))
    for question in sorted(holds):
        assert tachograph("ask", path, question).returncode == 0, question


def test_a_rank_that_lacks_it_is_named(tachograph, tmp_path):
    for rank, events in enumerate([POOR["no steps"], OPERATORS]):
        (tmp_path / f"rank{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events})
        )
    assert tachograph("ask", tmp_path, "kernels").returncode == 0
    done = tachograph("ask", tmp_path, "kernels", "--rank", "1")
    assert done.returncode == 3 and "rank 1 holds no device work" in done.stderr


@pytest.mark.parametrize("question", ["breakdown", "overlap", "kernel_types", "kernel_breakdown"])
def test_what_has_a_stream_is_work_to_hta(tachograph, tmp_path, question):
    """A compiled program recorded without its device: torch writes the stream among the args of the operator that
    launches. To HolisticTraceAnalysis it is a kernel of 20 us, and all the time there is; to us it is host work."""
    path = tmp_path / "compiled.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [
                    slice_("cpu_op", "triton_fused_add", 10, 20, stream=0),
                    slice_("cpu_op", "aten::add", 40, 5),
                ]
            }
        )
    )
    assert tachograph("ask", path, question).returncode == 3
    done = tachograph("ask", path, question, "--rules", "hta", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    for row in table["rows"]:
        row = dict(zip([c["name"] for c in table["columns"]], row))
        assert row.get("compute_ns", row.get("total_ns", 20_000)) == 20_000
    assert len(table["rows"]) == 1
    path.write_text(json.dumps({"traceEvents": [slice_("cpu_op", "aten::add", 40, 5, stream="0x0")]}))
    assert tachograph("ask", path, question, "--rules", "hta").returncode == 3


@pytest.mark.parametrize(
    "events, said",
    [([], "no events"), ([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}], "metadata only")],
)
def test_a_trace_without_events_is_no_trace(tachograph, tmp_path, events, said):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"traceEvents": events}))
    done = tachograph("ask", path, "ops")
    assert done.returncode == 4 and said in done.stderr


def memory(ts, size, tid=77, **args):
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "args": {"Device Type": 0, "Device Id": -1, "Bytes": size, **args},
    }


@pytest.mark.parametrize(
    "question",
    ["memory_blocks", "memory_timeline", "memory_state", "memory_map", "memory_stacks", "leaks", "checkpoint"],
)
def test_memory_without_addresses(tachograph, tmp_path, question):
    """As torch of 2021 wrote it: what was taken and given back can be summed, but not matched."""
    path = tmp_path / "old.json"
    path.write_text(
        json.dumps({"traceEvents": [slice_("cpu_op", "aten::mm", 10, 20), memory(12, 100), memory(15, -100)]})
    )
    done = tachograph("ask", path, question)
    assert done.returncode == 3 and "no address" in done.stderr and "record with" in done.stderr
    assert tachograph("ask", path, "memory").returncode == 0


def test_memory_events_on_the_thread_of_their_operators(tachograph, tmp_path):
    """Kineto of 2021 wrote the thread of an operator as "77" and that of its memory events as 77. Without totals of the
    allocator the peak is where most was taken and not given back: 100 + 30 bytes, after the second event."""
    events = [
        slice_("cpu_op", "aten::mm", 10, 20, tid="77"),
        slice_("cpu_op", "aten::add", 40, 20, tid="77"),
        memory(12, 100, Addr=16),
        memory(13, 30, Addr=256),
        memory(15, -100, Addr=16),
        memory(50, 60, Addr=512),
    ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"traceEvents": events}))

    def rows(*words):
        answer = json.loads(tachograph("ask", path, *words, "--json").stdout)
        return [dict(zip([c["name"] for c in answer["columns"]], row)) for row in answer["rows"]]

    assert [(r["op"], r["bytes"]) for r in rows("memory_blocks", "--sort", "made_ns asc")] == [
        ("aten::mm", 100),
        ("aten::mm", 30),
        ("aten::add", 60),
    ]
    assert sorted(r["bytes"] for r in rows("memory_state", "--at", "peak")) == [30, 100]


@pytest.mark.parametrize("written", [str, int])
def test_flows_on_the_thread_of_their_operators(tachograph, tmp_path, written):
    """The same of flows: forward on thread 77, backward on 78, and the flow between them on the numbers."""
    ends = [{"ph": "s", "ts": 10, "tid": 77}, {"ph": "f", "ts": 100, "tid": 78, "bp": "e"}]
    events = [
        slice_("Operator", "aten::mm", 10, 20, tid=written(77)),
        slice_("Operator", "MmBackward", 100, 30, tid=written(78)),
        slice_("Operator", "other", 100, 30, tid=written(79)),
        *({"id": 1, "pid": 1, "cat": "forward_backward", "name": "fwd_bwd", **e} for e in ends),
    ]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"traceEvents": events}))
    answer = json.loads(tachograph("ask", path, "forward_backward", "--json").stdout)
    (row,) = [dict(zip([c["name"] for c in answer["columns"]], row)) for row in answer["rows"]]
    assert (row["forward"], row["backward"], row["forward_ns"], row["backward_ns"]) == (
        "aten::mm",
        "MmBackward",
        20_000,
        30_000,
    )
