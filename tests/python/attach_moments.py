"""Programs that are attached to at given moments, and what must be as it is without us: exit status, output, what they
computed; and, as long as they live, their threads and open files."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from own_process import comes

TARGETS = pathlib.Path(__file__).with_name("attach_targets")
KINDS = sorted(path.stem.removeprefix("target_") for path in TARGETS.glob("target_*.py") if path.stem != "target_state")
COMMAND = os.environ.get("TACHOGRAPH")


def comparable(text):
    """Without what differs between two runs: from 3.12 on Python warns of a fork beside threads and names the process;
    nanobind, which newer triton is built with, lists at some exits what has not been released."""
    text = re.sub(r"nanobind: leaked .*?/refleaks\.html\n?", "", text, flags=re.S)
    return re.sub(r"\(pid=\d+\)", "(pid=0)", text)


class Life:
    """A target from its start to its end. stays: it does not end before may_end(), as it would for a busy machine."""

    def __init__(self, kind, folder, stays=False):
        self.kind, self.folder = kind, folder
        folder.mkdir(parents=True)
        environment = {**os.environ, "TARGET_MARKS": str(folder), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if not stays:
            self.may_end()
        self.begun = time.monotonic()
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, TARGETS / f"target_{kind}.py"], stdout=out, stderr=err, env=environment, cwd=folder
            )
        self.pid = self.process.pid

    def lives(self):
        return self.process.poll() is None

    def age(self):
        return time.monotonic() - self.begun

    def wait_until(self, seconds):
        """Of its life; or until it ends."""
        while self.lives() and self.age() < seconds:
            time.sleep(0.002)

    def may_end(self):
        (self.folder / "may end").touch()

    def has_come_to(self, mark):
        """A mark that it makes; or "loads": it has begun to load torch's libraries."""
        if mark != "loads":
            return (self.folder / mark).exists()
        with contextlib.suppress(OSError):  # it has ended
            return "/libtorch" in pathlib.Path(f"/proc/{self.pid}/maps").read_text()
        return False

    def wait_for(self, mark, seconds=0.0):
        """Until it has come to a mark, and so long after it."""
        while self.lives() and not self.has_come_to(mark):
            time.sleep(0.002)
        self.wait_until(self.age() + seconds)

    def result(self):
        status = self.process.wait(timeout=600)
        self.seconds = self.age()
        return status, (self.folder / "out").read_text(), comparable((self.folder / "err").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.lives():
            self.process.kill()
            self.process.wait()


def listed(folder):
    """Of /proc: nothing where the process has ended."""
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def traces_of_us(pid, folder):
    """Threads of ours and open files of the recording, in the process and in those it has forked. One that goes while
    it is looked at does not count."""
    found, open_ones = [], [str(pid)]
    for name in open_ones:
        process = pathlib.Path("/proc", name)
        for task in listed(process / "task"):
            with contextlib.suppress(OSError):
                thread = (task / "comm").read_text().strip()
                if thread.startswith("tachograph"):
                    found.append(f"{name}: thread {thread}")
                open_ones += (task / "children").read_text().split()
        for fd in listed(process / "fd"):
            with contextlib.suppress(OSError):
                file = os.readlink(fd)
                if str(folder) in file:
                    found.append(f"{name}: {file}")
    return found


OUTCOMES = {
    "recorded": r"\nfile  ",
    "ended": r"ended before|has ended|there is no process|is ending",
    "no torch": r"has not loaded torch|is no Python",  # of the latter kind is a process until Python is loaded
    "busy": r"is importing|is compiling|has not imported torch|try again",
}


def attach(life, folder, *words):
    """Attach to it, which may end meanwhile, and return what came of it, one of OUTCOMES."""
    done = subprocess.run(
        [COMMAND, "attach", str(life.pid), "--steps", "3", "--seconds", "0.2", *words, "-o", str(folder)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "TACHOGRAPH_PYTHON": sys.executable},
    )  # fmt: skip
    if "look into" in done.stderr and life.lives():
        pytest.skip(done.stderr.strip())
    assert done.returncode >= 0, f"attach itself: {done.returncode}: {done.stderr}"
    outcome = next((name for name, text in OUTCOMES.items() if re.search(text, done.stderr)), None)
    assert outcome, f"attach came to an end it does not know: {done.returncode}: {done.stderr}"
    left = lambda: life.lives() and traces_of_us(life.pid, folder)
    assert comes(lambda: not left()), f"left in the program: {left()}"
    return outcome


def harm(life, expected):
    """The difference from the program without us; None if there is none."""
    status, out, err = life.result()
    if status < 0:
        return f"killed by {signal.Signals(-status).name}; {err}"
    if (status, out, err) == expected:
        return None
    return f"{(status, out, err)} instead of {expected}"
