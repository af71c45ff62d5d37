"""How busy the machine was in a window of tg.profile: known to the file, its report and its findings."""

import json
import multiprocessing
import os
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph._collect.machine_use import MachineUse

SPIN = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_own_work_and_that_of_children_is_no_others():
    """A child of this process that spins is its own; what it has used before does not count."""
    child = multiprocessing.get_context("spawn").Process(target=spin, args=(60,))
    child.start()
    try:
        time.sleep(0.5)
        use, began = MachineUse(), time.process_time()
        cpu = lambda: sum(map(int, open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[11:13]))
        before = cpu()
        spin(1.0)
        used = (cpu() - before) / os.sysconf("SC_CLK_TCK") + time.process_time() - began
        got = use.since()
    finally:
        child.kill()
        child.join()
    assert got["process_pct"] / 100 == pytest.approx(used, abs=0.15 + 0.1 * used)
    assert got["others_pct"] >= 0 and got["core_wait_pct"] >= 0


def test_a_short_window_says_nothing_of_others():
    assert set(MachineUse().since()) <= {"core_wait_pct"}


@pytest.mark.parametrize("start", [lambda folder: tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=6, repeat=1)),
                                   lambda folder: tg.session(folder / "s", schedule=tg.schedule(wait=1, warmup=1, active=6, repeat=1))],
                         ids=["profile", "session"])  # fmt: skip
def test_a_window_knows_its_neighbours(tmp_path, start):
    others = [subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True) for _ in range(2)]
    try:
        x = torch.randn(64, 64)
        with start(tmp_path) as prof:
            for _ in range(8):
                end = time.monotonic() + 0.05
                while time.monotonic() < end:
                    x @ x
                prof.step()
        prof.export_chrome_trace(str(tmp_path / "t.json"))
    finally:
        for other in others:
            other.kill()
            other.wait()
    conditions = json.loads((tmp_path / "t.json").read_text())["conditions"]
    assert conditions["core_wait_pct"] >= 0 and conditions["process_pct"] > 0
    with tg.open(tmp_path / "t.json") as trace:
        text = trace.report()
    assert "quiet machine" in text or "the loop had no core for" in text
