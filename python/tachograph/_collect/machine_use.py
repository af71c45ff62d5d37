"""How busy the machine was while something was recorded: what this process with its children used, what all others did,
and how long this thread was ready and had no core. Looked at twice, at either end."""

from __future__ import annotations

import contextlib
import os
import threading
import time

LEAST_SECONDS = 0.05  # the system counts in hundredths of a second
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)  # of the numbers behind "cpu": idle, iowait


def core_wait_ns(thread: int | None = None) -> int | None:
    """How long this thread, or the one of that number, was ready and had no core, as other programs had them. None
    where the system does not say."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat" if thread else "/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _machine_seconds() -> float | None:
    """Of all cores, on whatever; what another virtual machine takes (steal) with it."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return sum(n for i, n in enumerate(ticks) if i not in _IDLE) * _TICK_SECONDS if ticks else None


def _children(pid: int | str) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())  # a thread that ends meanwhile hides no child of the others
    return found


def _family_seconds() -> dict[int, float]:
    """Of each process that was started from here, and of those that they started."""
    seconds: dict[int, float] = {}
    waiting = _children("self")
    while waiting:
        pid = waiting.pop()
        if pid in seconds:
            continue
        seconds[pid] = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()  # the name in front may hold blanks
            seconds[pid] = (int(words[11]) + int(words[12])) * _TICK_SECONDS
        waiting += _children(pid)
    return seconds


class MachineUse:
    def __init__(self) -> None:
        self._thread, self._waited_ns = threading.get_ident(), core_wait_ns()
        self._began_s, self._own_s = time.perf_counter(), time.process_time()
        self._machine_s, self._family_s = _machine_seconds(), _family_seconds()

    def since(self) -> dict[str, int]:
        """Per cent of the time, or of one core: core_wait_pct, process_pct, others_pct; without what is not known."""
        seconds = time.perf_counter() - self._began_s
        used: dict[str, int] = {}
        waited_ns, machine_s = core_wait_ns(), _machine_seconds()
        if seconds <= 0:
            return used
        if self._waited_ns is not None and waited_ns is not None and self._thread == threading.get_ident():
            used["core_wait_pct"] = round((waited_ns - self._waited_ns) / 1e7 / seconds)
        if self._machine_s is not None and machine_s is not None and seconds >= LEAST_SECONDS:
            family_s = sum(max(s - self._family_s.get(pid, 0), 0) for pid, s in _family_seconds().items())
            own_s = time.process_time() - self._own_s + family_s
            used["process_pct"] = round(100 * own_s / seconds)
            used["others_pct"] = round(100 * max(machine_s - self._machine_s - own_s, 0) / seconds)
        return used
