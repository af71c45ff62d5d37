"""How busy the machine was in a window of tg.profile: known to the file, its report and its findings."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import _record
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


SHORT_LIVED = "import time\nwhile time.process_time() < 0.15: pass"


def test_children_that_ended_are_no_others():
    """Six children, one after the other, at which no look falls while they live: their CPU time, as the system has it,
    is this process's own."""
    before, use, began = os.times(), MachineUse(), os.times()
    for _ in range(6):
        subprocess.run([sys.executable, "-c", SHORT_LIVED], check=True)
    now, got, after = os.times(), use.since(), os.times()
    least, most = sum(now[:4]) - sum(began[:4]), sum(after[:4]) - sum(before[:4])
    slack = 0.1 + 0.05 * most
    assert least >= 0.9
    assert got["process_pct"] / 100 * (after.elapsed - before.elapsed) >= least - slack
    assert got["process_pct"] / 100 * (now.elapsed - began.elapsed) <= most + slack


@pytest.fixture
def neighbour(tmp_path):
    """Computes on one core; started by a shell that has ended since, so that it is no child of this process."""
    (tmp_path / "spin.py").write_text(SPIN.replace("20", "600"))
    command = ["sh", "-c", '"$0" "$1" >/dev/null 2>&1 & echo $!', sys.executable, tmp_path / "spin.py"]
    pid = int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    yield pid
    os.kill(pid, signal.SIGKILL)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def test_a_program_of_somebody_else_is_another(neighbour):
    use, before, began = MachineUse(), cpu_seconds(neighbour), time.monotonic()
    time.sleep(1.5)
    used, seconds, got = cpu_seconds(neighbour) - before, time.monotonic() - began, use.since()
    assert got["others_pct"] / 100 * seconds >= 0.95 * used - 0.1
    assert got["process_pct"] <= 30


def test_counters_of_a_program_with_short_lived_children(tmp_path, neighbour):
    """Six children that end one after the other while their parent is recorded: the counter of children has their CPU
    time as the system has it, and no more, and that of others has the neighbour's."""
    _record.open(str(tmp_path / "run.tacho"), features=_record.PROCESS)
    _record.resume()
    _record.counter("begin", 0)
    began, before = sum(os.times()[2:4]), cpu_seconds(neighbour)
    for _ in range(6):
        subprocess.run([sys.executable, "-S", "-c", SHORT_LIVED], check=True)
    children, others = sum(os.times()[2:4]) - began, cpu_seconds(neighbour) - before
    _record.close()
    with tg.open(tmp_path / "run.tacho") as trace:
        marks = sorted(trace.ask("events", by="mark", args="value"), key=lambda row: row["start_ns"])
    seconds, begin_ns = {}, next(row["start_ns"] for row in marks if row["name"] == "begin")
    for name in ("child processes CPU %", "other processes CPU %"):
        samples = [(row["start_ns"], int(row["value"])) for row in marks if row["name"] == name]
        since = [begin_ns] + [at for at, _ in samples]
        seconds[name] = sum(v / 100 * (at - of) / 1e9 for (at, v), of in zip(samples, since, strict=False))
    assert children >= 6 * 0.15
    assert seconds["child processes CPU %"] == pytest.approx(children, abs=0.1 + 0.05 * children)
    assert seconds["other processes CPU %"] >= 0.9 * others - 0.2


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
