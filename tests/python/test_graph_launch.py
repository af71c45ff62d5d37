"""One call that launches many kernels, as a CUDA graph does: in `launches` its time counts once."""

import json

import pytest
import tachograph as tg


def call(name, ts, dur, correlation):
    args = {"correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def kernel(name, ts, dur, correlation):
    args = {"correlation": correlation, "device": 0, "stream": 7}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def trace(tmp_path):
    """A graph's launch of 60 us with kernels a, a, b; and a launch of 10 us with kernel b."""
    events = [call("cudaGraphLaunch", 0, 60, 1), kernel("a", 70, 5, 1), kernel("a", 80, 5, 1), kernel("b", 90, 5, 1)]
    events += [call("cudaLaunchKernel", 100, 10, 2), kernel("b", 115, 5, 2)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(tmp_path / "a.json") as opened:
        yield opened


def test_launches(trace):
    (row,) = trace.ask("launches")
    assert (row["device_events"], row["with_host_call"], row["call_ns"]) == (4, 4, 70_000)
    by_call = {row["call"]: row["call_ns"] for row in trace.ask("launches", by="call")}
    assert by_call == {"cudaGraphLaunch": 60_000, "cudaLaunchKernel": 10_000}
    assert [row["call_ns"] for row in trace.ask("launches", by="event")] == [60_000, 60_000, 60_000, 10_000]


def test_launch_stats_are_of_pairs(trace):
    """Of a call and what it launched: each piece of device work counts its call, as HTA does."""
    (row,) = trace.ask("launch_stats")
    assert (row["launches"], row["call_ns"], row["call_outliers"]) == (4, 190_000, 3)
    by_kernel = {row["kernel"]: row["call_ns"] for row in trace.ask("launch_stats", by="kernel")}
    assert by_kernel == {"a": 120_000, "b": 70_000}
