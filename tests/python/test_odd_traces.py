"""Every question with a slow reference on the traces of odd_traces.py, and what those showed to be wrong, by hand."""

import json

import odd_traces
import pytest
import reference_device
import reference_ops
import test_columns_random
import test_device
import test_host_columns_random
import test_ops
import test_plugin
import test_property
from hypothesis import given, settings, strategies as st
from test_property import SETTINGS, Written

SOME = settings(SETTINGS, max_examples=settings.default.max_examples)
CONTENT = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "size": st.integers(3, 90),
        "grain": st.sampled_from((1, 250, 1000, 40_000)),
        "steps": st.integers(0, 4),
        "threads": st.integers(1, 3),
        "devices": st.integers(1, 3),
    }
)
MEMORY = {"memory", "memory_ops", "key_averages", "memory_by_op", "memory_by_category"}


def check_device(rank, ask):
    test_device.check_all(reference_device.Exact(rank), rank, ask)


def check_op_kernels(rank, ask):
    for by in ("sequence", "op", "call"):
        want = reference_ops.op_kernels(rank.events, by)
        columns = sorted(next(iter(want.values()), {}))
        theirs = [(key[0], *test_ops.picked(row, columns)) for key, row in want.items()]
        assert test_ops.bag((r["op"], *test_ops.picked(r, columns)) for r in ask("op_kernels", by=by)) == test_ops.bag(
            theirs
        ), by


def check_sequences(rank, ask):
    for wanted in ("", "aten::", "f0"):
        want, _ = reference_ops.sequences(rank.events, wanted, 1)
        columns = sorted(next(iter(want.values()), {}))
        theirs = [(*key, *test_ops.picked(row, columns)) for key, row in want.items()]
        rows = ask("sequences", op=wanted, min_length=1)
        assert test_ops.bag((r["op"], r["pattern"], *test_ops.picked(r, columns)) for r in rows) == test_ops.bag(
            theirs
        ), wanted


def check_call_graph(rank, ask):
    want = reference_ops.call_graph(rank.events)
    figures = ("depth", "height", "kernels", "kernel_ns", "first_ns", "last_ns", "kernel_span_ns")
    rows = {r["id"]: r for r in ask("call_graph")}

    def place(e):
        return {"name": e.name, "start_ns": e.ts, "dur_ns": e.dur} if e is not None else None

    assert test_ops.bag(test_ops.line(r, rows.get(r["parent"]), figures) for r in rows.values()) == test_ops.bag(
        test_ops.line({**place(e), **row}, place(up), figures) for e, up, row in want.values()
    )


CHECKS = {
    **test_property.CHECKS,
    **test_plugin.CHECKS,
    "device": check_device,
    "op_kernels": check_op_kernels,
    "sequences": check_sequences,
    "call_graph": check_call_graph,
    **{name + " columns": check for name, check in test_columns_random.CHECKS.items()},
    **{name + " of the host": check for name, check in test_host_columns_random.CHECKS.items()},
}


@pytest.mark.parametrize("what", CHECKS)
@SOME
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_question(engine, what, content, spelling):
    memory = what.split(" ")[0] in MEMORY or what.endswith("of the host")
    with Written(engine, odd_traces.build(**content, memory=memory), spelling) as ranks:
        for rank, ask in ranks:
            CHECKS[what](rank, ask)


@SOME
@given(content=CONTENT)
def test_as_hta_counts(engine, content):
    with Written(engine, odd_traces.build(**content), 1) as ranks:
        for keep_last, rules in ((False, "hta"), (True, "hta-last")):
            for (rank, ask), m in zip(ranks, reference_device.hta_ranks([r for r, _ in ranks], keep_last=keep_last)):
                test_device.check_all(m, rank, ask, rules=rules)


# ---- by hand -----------------------------------------------------------------------------------------------


def asked(engine, tmp_path, question, *events, **args):
    """events: (name, category, start, end in us, args), all of one thread but for those with a stream."""
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [
                    {
                        "ph": "X",
                        "name": name,
                        "cat": cat,
                        "pid": 0 if "stream" in more else 9,
                        "tid": more.get("stream", 9),
                        "ts": start,
                        "dur": end - start,
                        "args": more,
                    }
                    for name, cat, start, end, more in events
                ]
            }
        )
    )
    return engine.ask(path, question, **args)


def test_a_function_has_a_sequence_without_any_operator(engine, tmp_path):
    rows = asked(
        engine,
        tmp_path,
        "sequences",
        ("t.py(1): run", "python_function", 0, 100, {"Python id": 1}),
        ("cudaLaunchKernel", "cuda_runtime", 22, 23, {"correlation": 7}),
        ("gemm", "kernel", 30, 40, {"correlation": 7, "stream": 7, "device": 0}),
        op="run",
        min_length=1,
    )
    assert [(row["pattern"], row["kernel_ns"]) for row in rows] == [("t.py(1): run|gemm", 10_000)]


def test_a_range_left_open_takes_nothing_out_of_the_function_that_began_it(engine, tmp_path):
    """As __enter__ of the profiler's ranges: the range begins in the call and outlives it, and what the call calls then
    is still its."""
    frames = (
        ("t.py(1): run", 0, 100),
        ("p.py(5): __enter__", 10, 30),
        ("p.py(9): push", 20, 25),
        ("t.py(7): work", 40, 60),
    )
    rows = asked(
        engine,
        tmp_path,
        "stacks",
        ("my range", "user_annotation", 15, 90, {}),
        *((n, "python_function", a, b, {"Python id": a}) for n, a, b in frames),
        ("cudaLaunchKernel", "cuda_runtime", 22, 23, {"correlation": 7}),
        ("k", "kernel", 30, 33, {"device": 0, "stream": 7, "correlation": 7}),
        by="function",
    )
    assert {r["name"]: (r["cpu_ns"], r["self_cpu_ns"], r["device_ns"]) for r in rows} == {
        "t.py(1): run": (100_000, 60_000, 3000),
        "p.py(5): __enter__": (20_000, 15_000, 3000),
        "p.py(9): push": (5000, 5000, 3000),
        "t.py(7): work": (20_000, 20_000, 0),
    }
    stacks = {r["name"] for r in engine.ask(tmp_path / "trace.json", "stacks", by="stack")}
    assert "t.py(1): run;p.py(5): __enter__;p.py(9): push" in stacks


def test_a_call_belongs_to_the_operator_it_starts_in_whatever_overlaps_that(engine, tmp_path):
    """The step begins inside the operator and outlives it; of two operators that overlap in part the later one has the
    call, until it ends."""
    work = [("k%d" % n, "kernel", 200 + n, 201 + n, {"device": 0, "stream": 7, "correlation": n}) for n in range(1, 5)]
    calls = [
        ("cudaLaunchKernel", "cuda_runtime", at, at + 1, {"correlation": n})
        for n, at in ((1, 20), (2, 45), (3, 55), (4, 70))
    ]
    rows = asked(
        engine,
        tmp_path,
        "launches",
        ("aten::a", "cpu_op", 0, 50, {}),
        ("ProfilerStep#1", "user_annotation", 10, 100, {}),
        ("aten::b", "cpu_op", 40, 60, {}),
        ("aten::short", "cpu_op", 30, 35, {}),
        *calls,
        *work,
        by="event",
    )
    assert {r["kernel"]: r["op"] for r in rows} == {"k1": "aten::a", "k2": "aten::b", "k3": "aten::b", "k4": None}


def test_an_empty_step_is_over_when_the_next_begins(engine, tmp_path):
    rows = asked(
        engine,
        tmp_path,
        "steps",
        ("ProfilerStep#2", "user_annotation", 5, 50, {}),
        ("ProfilerStep#1", "user_annotation", 5, 5, {}),
        ("aten::a", "cpu_op", 6, 9, {}),
    )
    assert [(r["step"], r["total_ns"]) for r in rows] == [("1", 0), ("2", 45_000)]


def test_a_runtime_call_comes_off_the_operator_it_runs_in(engine, tmp_path):
    """Its external id names the operator that launched, which may be on another thread, be over, or have others in it:
    device work follows the id, host time does not."""
    rows = asked(
        engine,
        tmp_path,
        "ops",
        ("outer", "cpu_op", 0, 100, {"External id": 1}),
        ("inner", "cpu_op", 10, 90, {"External id": 2}),
        ("cudaMalloc", "cuda_runtime", 20, 80, {"External id": 1, "correlation": 7}),
        ("cuMemAlloc", "cuda_driver", 30, 70, {"External id": 1, "correlation": 8}),  # the same time once more
        ("short", "cpu_op", 200, 203, {"External id": 3}),
        ("cudaStreamSynchronize", "cuda_runtime", 210, 240, {"External id": 3, "correlation": 9}),  # behind it
        ("late", "cpu_op", 300, 310, {"External id": 4}),
        ("cudaLaunchKernel", "cuda_runtime", 305, 320, {"External id": 4, "correlation": 10}),  # ends behind it
        ("around", "cpu_op", 400, 450, {"External id": 5}),
        ("cudaGraphLaunch", "cuda_runtime", 410, 440, {"External id": 5, "correlation": 11}),
        ("back", "cpu_op", 415, 425, {"External id": 6}),  # called by the runtime
        ("k", "kernel", 500, 505, {"device": 0, "stream": 7, "correlation": 9}),
    )
    assert {r["name"]: (r["self_cpu_ns"] // 1000, r["self_device_ns"] // 1000) for r in rows} == {
        "outer": (20, 0),
        "inner": (20, 0),
        "short": (3, 5),
        "late": (5, 0),
        "around": (20, 0),
        "back": (10, 0),
    }
    totals = engine.ask(tmp_path / "trace.json", "totals")[0]
    assert totals["self_cpu_ns"] == 78_000 and totals["self_cpu_ns"] + totals["runtime_ns"] == totals["thread_cpu_ns"]


def test_every_question_has_the_line_of_the_call(engine, tmp_path):
    """Frames have the first lines of their functions, as torch writes them; what was called from where is beside."""
    trained = "train.py(1): <module>"
    path = tmp_path / "trace.json"
    asked(
        engine,
        tmp_path,
        "ops",
        (trained, "python_function", 0, 100, {"Python id": 1}),
        ("net.py(5): forward", "python_function", 10, 90, {"Python id": 2, "CallFrom": "train.py:40"}),
        ("torch/nn/linear.py(100): call", "python_function", 20, 80, {"Python id": 3, "CallFrom": "net.py:12"}),
        ("aten::copy_", "cpu_op", 30, 70, {"External id": 1, "CallFrom": "torch/nn/linear.py:114"}),
        ("cudaMemcpyAsync", "cuda_runtime", 35, 40, {"External id": 1, "correlation": 7}),
        ("cudaStreamSynchronize", "cuda_runtime", 45, 65, {"External id": 1, "correlation": 8}),
        ("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 42, 60, {"device": 0, "stream": 7, "correlation": 7}),
    )
    document = json.loads(path.read_text())
    memory = {"Addr": 4096, "Bytes": 64, "Device Type": 0, "Device Id": -1, "Total Allocated": 64, "Total Reserved": 64}
    document["traceEvents"].append(
        {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 9, "tid": 9, "ts": 50, "args": memory}
    )
    path.write_text(json.dumps(document))
    stack = "torch/nn/linear.py(114): call;net.py(12): forward;train.py(40): <module>"
    assert [r["group"] for r in engine.ask(path, "ops", by="stack")] == [stack]
    assert [r["stack"] for r in engine.ask(path, "memory_stacks")] == [stack]
    assert [r["line"] for r in engine.ask(path, "copy_bandwidth", by="op")] == ["torch/nn/linear.py(114): call"]
    assert [r["where"] for r in engine.ask(path, "syncs")] == ["net.py(12): forward"]  # the innermost of the program
    lines = {r["name"] for r in engine.ask(path, "stacks", by="line")}
    assert {"torch/nn/linear.py(114): call", "net.py(12): forward", "train.py(40): <module>"} <= lines


def test_busy_shares_are_of_the_steps(engine, tmp_path):
    """Two steps of 100 us an hour apart. The device works for 20 and 60 us of them, and before the first and between
    them, which is of no step."""
    hour = 3_600_000_000
    work = ((-500, -400), (10, 30), (200, 300), (hour + 20, hour + 80))
    path = tmp_path / "trace.json"
    rows = asked(
        engine,
        tmp_path,
        "breakdown",
        ("ProfilerStep#1", "user_annotation", 0, 100, {}),
        ("ProfilerStep#2", "user_annotation", hour, hour + 100, {}),
        ("aten::mm", "cpu_op", 5, 9, {}),
        ("aten::mm", "cpu_op", hour + 5, hour + 9, {}),
        *(("k", "kernel", a, b, {"device": 0, "stream": 7, "correlation": n}) for n, (a, b) in enumerate(work)),
        by="device",
        window="steps",
    )
    (row,) = rows
    assert (row["kernel_time_ns"], row["busy_ns"], row["summed_ns"]) == (200_000, 80_000, 80_000)
    assert (row["busy_pct"], row["idle_pct"]) == (40, 60)
    (row,) = engine.ask(path, "breakdown", by="device")
    assert row["kernel_time_ns"] == (hour + 580) * 1000 and row["busy_ns"] == 280_000


def test_time_in_labels_is_no_time_of_operators(engine, tmp_path):
    """Of a step of 100 us an operator takes 20, and Python inside a label 60."""
    (row,) = asked(
        engine,
        tmp_path,
        "steps",
        ("ProfilerStep#1", "user_annotation", 0, 100, {}),
        ("forward", "user_annotation", 10, 90, {}),
        ("train.py(3): loop", "python_function", 12, 88, {"Python id": 1}),
        ("aten::mm", "cpu_op", 20, 40, {}),
    )
    parts = ("cpu_exec_ns", "other_ns", "label_ns", "operator_ns", "bare_ns")
    assert [row[c] for c in parts] == [80_000, 20_000, 60_000, 20_000, 80_000]
