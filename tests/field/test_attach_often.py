"""A program that is attached to two hundred times computes what it computes by itself, and its steps are afterwards as
long as before; twenty times with eight threads that compute beside it."""

import statistics
import time

import pytest

pytest.importorskip("torch")
from own_process import comes, tasks
from test_attach import LOOP, Target, attached

BUSY = """
import threading, torch
def compute():
    x = torch.randn(64, 64)
    while True:
        x = torch.tanh(x @ x)
for _ in range(8):
    threading.Thread(target=compute, daemon=True).start()
"""
TIMED = LOOP.replace("losses.append(loss.item())", "losses.append(loss.item()); times.append(time.thread_time_ns())").replace(
    "losses, end, most = [],", "times = []; losses, end, most = [],"
).replace('"left": left}', '"left": left, "times": times}')  # fmt: skip


def cpu_of_steps(times, first, count):
    part = times[first : first + count]
    return statistics.median(b - a for a, b in zip(part, part[1:], strict=False))


@pytest.mark.parametrize("text, cycles", [(TIMED, 200), (BUSY + TIMED, 20)], ids=["alone", "with_busy_threads"])
def test_often(tmp_path, tachograph, text, cycles):
    with Target(tmp_path / "run", text) as target:
        for i in range(cycles):
            done = attached(tachograph, target.pid, "--steps", "3", "--seconds", "10", "-o", tmp_path / str(i))
            assert done.returncode == 0, f"cycle {i}: {done.stderr}"
            (tmp_path / str(i) / "trace.tacho").unlink()
        assert comes(lambda: tasks(target.pid)[1] == 0)
        time.sleep(0.5)  # steps after the last
        ended = target.end()
    left, losses, times = ended["left"], ended["losses"], ended["times"]
    assert left["tasks"] == 0 and left["hooks"] == 0 and left["on"] == []
    with Target(tmp_path / "alone", words=(str(len(losses)),), wait="") as alone:
        assert alone.result()["losses"] == losses
    if text is TIMED:
        assert cpu_of_steps(times, len(times) - 40, 40) < 1.5 * cpu_of_steps(times, 5, 40)
