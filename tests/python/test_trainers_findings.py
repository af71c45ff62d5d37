"""The line in a trainer's log about a window in which nothing is found."""

import json

import pytest

pytest.importorskip("torch")
import tachograph as tg
from tachograph._trainers import step_windows


def test_what_is_withheld_is_said(tmp_path):
    """On a machine that others keep busy a loader that takes a quarter of each step is no finding, and is named."""
    events = []
    for k in range(6):
        at = k * 10_000
        for name, category, start, dur in (
            (f"ProfilerStep#{k}", "user_annotation", at, 10_000),
            ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "user_annotation", at, 2_500),
            ("aten::conv2d", "cpu_op", at + 2_500, 7_400),
        ):
            events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur})
    (tmp_path / "t.json").write_text(
        json.dumps({"core_wait_pct": 40, "conditions": {"others_pct": 90}, "traceEvents": events})
    )
    with tg.open(tmp_path / "t.json") as trace:
        assert step_windows.findings(trace) == [
            "nothing found above 5 %; withheld: loader-too-slow, 25.0 % (other programs kept the machine busy)"
        ]
