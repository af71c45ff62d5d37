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


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _family_seconds() -> dict[tuple[int, int], float]:
    """Of each process that was started from here, and of those that they started, by number and start: their own CPU
    time, and that of children that they have waited for."""
    seconds: dict[tuple[int, int], float] = {}
    if not _has_children():
        return seconds
    family = {os.getpid()}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()  # the name in front may hold blanks
            if int(words[1]) in family:  # a parent has the lower number, but where numbers began again
                family.add(pid)
                seconds[pid, int(words[19])] = sum(map(int, words[11:15])) * _TICK_SECONDS
    return seconds


def _reaped_seconds() -> float:
    """Of children of this process that ended, and that it has waited for."""
    return sum(os.times()[2:4])


class MachineUse:
    def __init__(self) -> None:
        self._thread, self._waited_ns = threading.get_ident(), core_wait_ns()
        self._began_s, self._own_s = time.perf_counter(), time.process_time()
        self._machine_s, self._family_s, self._reaped_s = _machine_seconds(), _family_seconds(), _reaped_seconds()

    def _children_s(self) -> float:
        """What was seen of a child alive is in what it had used when it was waited for."""
        family_s, reaped_s = _family_seconds(), _reaped_seconds() - self._reaped_s
        ended_s = sum(s for process, s in self._family_s.items() if process not in family_s)
        alive_s = sum(max(s - self._family_s.get(process, 0), 0) for process, s in family_s.items())
        return alive_s + max(reaped_s - ended_s, 0)

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
            own_s = time.process_time() - self._own_s + self._children_s()
            used["process_pct"] = round(100 * own_s / seconds)
            used["others_pct"] = round(100 * max(machine_s - self._machine_s - own_s, 0) / seconds)
        return used
