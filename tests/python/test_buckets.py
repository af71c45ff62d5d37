"""The question buckets: what a step sends beside its backward pass, worked by hand."""

import json
import pathlib

import pytest
import tachograph as tg

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared" / "traces"
NODE = "autograd::engine::evaluate_function: AccumulateGrad"


def slice_of(category, name, start_us, end_us, tid, **args):
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start_us, "dur": end_us - start_us}
    return {**event, "args": args}


def send(kind, asked_us, start_us, end_us, elements):
    """The call on the thread that asks, and the library's work on its own thread, which nothing links to the call."""
    dims = {"Input Dims": [[elements]], "Input type": ["float"]}
    call = {"broadcast": "c10d::broadcast_", "all_reduce": "c10d::allreduce_"}[kind]
    return [
        slice_of("cpu_op", call, asked_us, asked_us + 5, 2),
        slice_of("user_annotation", f"gloo:{kind}", start_us, end_us, 3, **dims),
    ]


def asked(path):
    table = tg.open(str(path)).ask("buckets")
    return list(table), table.notes


def answer(path, events):
    path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": events}))
    return asked(path)


def test_buckets_of_two_steps_on_the_host(tmp_path):
    events = []
    for step, longer_us in ((0, 0), (1000, 40)):
        events += [
            slice_of("user_annotation", f"ProfilerStep#{step // 1000}", step, step + 990, 1),
            slice_of("cpu_op", NODE, step + 400, step + 500, 2),
            slice_of("cpu_op", NODE, step + 500, step + 700, 2),
            *send("broadcast", step + 100, step + 110, step + 150, 16),
            *send("all_reduce", step + 450, step + 460, step + 560, 1000),
            *send("all_reduce", step + 650, step + 660, step + 760 + longer_us, 250),
        ]
    rows, notes = answer(tmp_path / "host.json", events)
    names = "phase", "kind", "place", "steps", "bytes", "asked_ns", "to_end_ns", "dur_ns", "exposed_ns"
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("forward", "broadcast", 1, 2, 64, -290e3, 590e3, 40e3, 40e3),
        ("backward", "all_reduce", 1, 2, 4000, 60e3, 240e3, 100e3, 0),  # all of it beside the two nodes
        ("backward", "all_reduce", 2, 2, 1000, 260e3, 40e3, 120e3, 80e3),  # 100 and 140 us, of which 40 beside the node
    ]
    assert [note for note in notes if "2 all_reduce in a backward pass" in note and "0.04 ms before" in note]


def test_a_bucket_that_one_step_asks_for_late_has_one_row(tmp_path):
    """The pass lasts from 400 to 700 us. In the last step both are asked for behind it."""
    events = []
    for step, first_us, second_us in ((0, 450, 650), (1000, 450, 720), (2000, 710, 730)):
        events += [
            slice_of("user_annotation", f"ProfilerStep#{step // 1000}", step, step + 990, 1),
            slice_of("cpu_op", NODE, step + 400, step + 700, 2),
            *send("all_reduce", step + first_us, step + first_us + 1, step + first_us + 101, 1000),
            *send("all_reduce", step + second_us, step + second_us + 1, step + second_us + 101, 250),
        ]
    rows, _ = answer(tmp_path / "late.json", events)
    names = "phase", "place", "steps", "bytes"
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("backward", 1, 3, 4000),
        ("after backward", 2, 3, 1000),
    ]


def test_on_a_device_the_end_of_the_pass_is_that_of_its_kernels(tmp_path):
    events = [slice_of("user_annotation", "ProfilerStep#0", 0, 990, 1), slice_of("cpu_op", NODE, 400, 600, 2)]
    kernels = (("compute", 720, 900, 7), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 730, 950, 8))
    for number, (name, start, end, stream) in enumerate(kernels):
        launch = 450 + 50 * number
        asked = slice_of("cpu_op", "c10d::allreduce_", 495, 520, 2)
        events += [asked] if number else []
        events.append(slice_of("cuda_runtime", "cudaLaunchKernel", launch, launch + 10, 2, correlation=number + 1))
        args = {"device": 0, "stream": stream, "correlation": number + 1}
        events.append({**slice_of("kernel", name, start, end, stream, **args), "pid": 0})
    (row,), _ = answer(tmp_path / "device.json", events)
    assert (row["phase"], row["kind"], row["asked_ns"]) == ("backward", "all_reduce", 95e3)
    assert (row["to_end_ns"], row["dur_ns"], row["exposed_ns"]) == (170e3, 220e3, 50e3)


def test_steps_without_a_backward_pass(tmp_path):
    events = [slice_of("user_annotation", "ProfilerStep#0", 0, 990, 1), *send("all_reduce", 100, 110, 150, 16)]
    (row,), notes = answer(tmp_path / "forward.json", events)
    assert (row["phase"], row["asked_ns"], row["to_end_ns"], row["exposed_ns"]) == ("no backward", None, None, 40e3)
    assert not [note for note in notes if "backward pass" in note]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared traces are not beside the repository")
def test_buckets_of_a_public_trace_hold_the_gradients_of_resnet50():
    """25,557,032 parameters of 4 bytes each."""
    rows, _ = asked(SHARED / "train_v100_ns")
    assert sum(row["bytes"] for row in rows if row["phase"] == "backward") == 4 * 25_557_032
