"""Python's warning of a fork beside threads, from 3.12 on: where the only other threads are ours it is about us, and
the program would print a line that it does not print without us."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings

WARNS = sys.version_info >= (3, 12)
MESSAGE = r"This process \(pid=\d+\) is multi-threaded"
STAYS_SECONDS = 1.0  # Python warns some microseconds after the functions for a fork have run

_ours: tuple | None = None  # the filter, while it is in the program's list
_since_s = 0.0


def _has_threads() -> bool:
    """Of its own, beside the one that asks."""
    me, others = str(os.getpid()), 0
    for name in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{name}/comm") as comm:
            others += name != me and not comm.read().startswith("tachograph")
            if others:
                return True
    return False


def silence() -> None:
    """Before a fork."""
    global _ours, _since_s
    if not WARNS or _has_threads():
        restore()
        return
    _since_s = time.monotonic()
    if _ours is None:
        warnings.filterwarnings("ignore", MESSAGE, DeprecationWarning)
        _ours = warnings.filters[0]


def is_due() -> bool:
    """The fork is long over."""
    return _ours is not None and time.monotonic() - _since_s > STAYS_SECONDS


def restore() -> None:
    """The program's list as it was. A filter that ignores leaves no mark in a registry."""
    global _ours
    ours, _ours = _ours, None
    if ours is not None:
        with contextlib.suppress(ValueError):
            warnings.filters.remove(ours)  # type: ignore[attr-defined]
