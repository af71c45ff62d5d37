"""What explains the time between two calls, and steps that are far too long: the verdict of the model of the steps."""

import json

import pytest
import tachograph as tg

STEPS, OPERATOR_US, GAP_US = 12, 200, 300


def slice_of(category, name, at, dur, tid=1, pid=1):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": {}}


def verdict(folder, sampled_us=0, long_step=None, sampled_pid=1):
    """Of steps with an operator, a gap and an operator. Samples cover so much of each gap."""
    events, at = [], 1000
    for i in range(STEPS):
        first_us = 50 * OPERATOR_US if i == long_step else OPERATOR_US
        events.append(slice_of("cpu_op", "aten::mm", at, first_us))
        if sampled_us:
            events.append(slice_of("python_sample", "running", at + first_us, sampled_us, 9, sampled_pid))
            events[-1]["args"] = {"Call stack": "train.py(4): step"}
        events.append(slice_of("cpu_op", "aten::add", at + first_us + GAP_US, OPERATOR_US))
        length = first_us + GAP_US + OPERATOR_US
        events.append(slice_of("user_annotation", f"ProfilerStep#{i}", at, length))
        at += length
    (folder / "t.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(folder / "t.json") as trace:
        (row,) = trace.ask("step_model")
    return row


@pytest.mark.parametrize("sampled_us, explains", [(0, False), (140, False), (160, True), (300, True)])
def test_samples_over_half_of_a_gap_explain_it(tmp_path, sampled_us, explains):
    """300 of 700 us are the gap, 42.9 % of the path; 15 % may be unexplained."""
    row = verdict(tmp_path, sampled_us)
    assert row["verdict"] == ("proven" if explains else "refused"), row
    assert row["unexplained_pct"] == pytest.approx(
        0 if explains else 100 * GAP_US / (GAP_US + 2 * OPERATOR_US), abs=0.5
    )


def test_samples_of_a_worker_process_explain_nothing(tmp_path):
    assert verdict(tmp_path, 300, sampled_pid=2)["verdict"] == "refused"


@pytest.mark.parametrize("loader, verdict", [("_SingleProcess", "proven"), ("_MultiProcessing", "refused")])
def test_a_loader_without_workers_fetches_where_it_is_called(tmp_path, loader, verdict):
    """Half of each step is in its call, beside the operators there; with workers it is a wait for them."""
    events, name = [], f"enumerate(DataLoader)#{loader}DataLoaderIter.__next__"
    for i in range(STEPS):
        at = 1000 * i
        events.append(slice_of("user_annotation", name, at, 500))
        events.append(slice_of("cpu_op", "aten::mm", at + 500, 500))
        events.append(slice_of("user_annotation", f"ProfilerStep#{i}", at, 1000))
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(tmp_path / "t.json") as trace:
        (row,) = trace.ask("step_model")
    assert row["verdict"] == verdict and row["unexplained_pct"] == pytest.approx(
        0 if verdict == "proven" else 50, abs=1
    )


@pytest.mark.parametrize("long_step", [4, 7])
def test_one_step_far_too_long_does_not_outweigh_the_others(tmp_path, long_step):
    """10 of 12 usual steps work for 400 of 700 us; the long one for 10.2 of 10.5 ms."""
    row = verdict(tmp_path, 300, long_step)
    assert row["verdict"] == "proven" and row["share_error_points"] < 0.1, row
