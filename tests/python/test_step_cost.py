"""What the thread of a step used: time on a core, time without one, preemptions; by the clocks of the thread itself."""

import pathlib
import sys
import time

import pytest
import tachograph as tg
from tachograph import _record

SCHEDSTAT = pathlib.Path("/proc/thread-self/schedstat")
pytestmark = pytest.mark.skipif(sys.platform != "linux" or not SCHEDSTAT.exists(), reason="no schedstat")


def waited_ns():
    return int(SCHEDSTAT.read_text().split()[1])


def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def record(path, *steps):
    """The steps' own account, and that of the clocks around each."""
    _record.open(str(path), features=0)
    _record.resume()
    seen = []
    for number, step in enumerate(steps):
        _record.step_begin(f"ProfilerStep#{number}")
        before = time.thread_time_ns(), waited_ns()
        step()
        seen.append((time.thread_time_ns() - before[0], waited_ns() - before[1]))
        _record.step_end()
    _record.close()
    with tg.open(path) as trace:
        return list(trace.ask("events", where="name ~ 'ProfilerStep'")), seen, list(trace.ask("steps"))


def test_cpu_and_wait_are_those_of_the_clocks(tmp_path):
    _, seen, steps = record(tmp_path / "a.tacho", lambda: work(0.02), lambda: time.sleep(0.03), lambda: work(0.01))
    for (cpu, wait), step in zip(seen, steps, strict=True):
        assert 0 <= step["thread_cpu_ns"] - cpu < 2_000_000  # the clocks' own calls, and a file that is opened
        assert wait <= step["core_wait_ns"] + 1000
        assert step["thread_cpu_ns"] + step["core_wait_ns"] <= step["host_ns"] + 1_000_000
        assert step["preemptions"] >= 0
    assert steps[1]["thread_cpu_ns"] < 5_000_000 < 30_000_000 <= steps[1]["host_ns"]


@pytest.mark.parametrize("first_s, left_out", [(0.03, True), (0.01, False)])
def test_a_slow_first_step_is_no_part_of_averages(tmp_path, first_s, left_out):
    """A recording costs most where it begins. 3 times the others is above 1.5, once is not."""
    steps = [lambda: work(first_s)] + [lambda: work(0.01)] * 3
    _, seen, rows = record(tmp_path / "c.tacho", *steps)
    with tg.open(tmp_path / "c.tacho") as trace:
        summary = trace.ask("steps", by="summary")
        page = " ".join(trace.report().split())
        named = trace.ask("steps", by="summary", step="0:3")
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]  # it stays a row
    mean = {row["step"]: row for row in summary}["mean"]["thread_cpu_ns"]
    kept = rows[1:] if left_out else rows
    assert mean == round(sum(row["thread_cpu_ns"] for row in kept) / len(kept))
    assert any("the first step is left out: its CPU time is" in note for note in summary.notes) == left_out
    assert ("the first step is left out: its CPU time is" in page) == left_out  # the median is that of the others
    assert any(f"statistics over {len(kept)} steps" in note for note in summary.notes)
    assert not any("left out" in note for note in named.notes)  # steps that are named are kept


def test_not_recorded_is_unknown(tmp_path):
    _record.open(str(tmp_path / "b.tacho"), features=0)
    _record.step_begin("ProfilerStep#0")  # begins before anything is recorded
    _record.resume()
    _record.step_end()
    _record.step_begin("ProfilerStep#1")
    _record.step_end()
    _record.close()
    with tg.open(tmp_path / "b.tacho") as trace:
        steps = list(trace.ask("steps"))
    assert [s["step"] for s in steps] == ["1"] and steps[0]["thread_cpu_ns"] is not None
