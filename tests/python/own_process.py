"""The system's facts about this process and others, for tests that check whether something was left behind; and waiting
for what comes in its own time."""

import contextlib
import itertools
import os
import pathlib
import time


def held_kib():
    """Memory that only this process holds, counted page by page: /proc/self/statm is rounded per core, and has the
    pages of programs, which come and go with what else the machine needs memory for."""
    with open("/proc/self/smaps_rollup") as f:
        words = [line.split() for line in f]
    return sum(int(line[1]) for line in words if line[0] in ("Anonymous:", "Swap:"))


def least_growth_kib(work, times=4):
    """What this process holds more after work(), the least of several times: a leak is in each of them, a heap that
    grows once is not."""
    held = [held_kib()]
    for _ in range(times):
        work()
        held.append(held_kib())
    return min(after - before for before, after in itertools.pairwise(held))


def mapped(part):
    """How many pieces of files with this in their path are in memory."""
    with open("/proc/self/maps") as f:
        return sum(part in line for line in f)


def threads():
    """Numbers of the threads that there are."""
    return set(os.listdir("/proc/self/task"))


def tasks(pid):
    """Of a process: how many threads, and how many are ours. A thread that ends meanwhile does not count."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append(pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip())
    return len(names), names.count("tachograph")


def state(pid):
    """Of a process: S it sleeps, T it is stopped, Z it has ended and was not waited for …"""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def comes(condition, seconds=600):
    """Whether it came about, however long a busy machine took. A thread that was joined is listed for a moment longer,
    for one."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
