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
