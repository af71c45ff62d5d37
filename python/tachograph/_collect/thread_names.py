"""The names of Python's threads in a recording. The system has none of them before Python 3.14.

The name that a thread has at its end, or at the end of the recording, counts: a thread may be renamed as often as it
likes. Some are written when a thread begins, for a process that is killed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from .. import _record

EARLY = 256  # names written when a thread begins: a server that has a thread for each request fills no file with them
_BEGUN = "_set_native_id"  # what a thread calls on itself, once
# The same at its end, before which we act; a thread of 3.10 only calls all that it does, behind which we act.
_ENDS, _BEFORE = ("_delete", True) if sys.version_info >= (3, 11) else ("_bootstrap_inner", False)


class ThreadNames:
    """begin() and end() around a recording. Meanwhile a thread costs a call at its beginning and at its end.

    hooks=False leaves threading.Thread as it is, for a program that we only join: threads then have the names of the
    recording's start and end."""

    def __init__(self, hooks: bool = True) -> None:
        self._is_hooking = hooks
        self._written: dict[int, str] = {}
        self._early = 0
        self._hooks: list[tuple[str, Any, Any]] = []  # method of Thread, as it was, ours

    def begin(self) -> None:
        for thread in threading.enumerate():
            self._began(thread)
        if self._is_hooking:
            self._hook(_BEGUN, self._began, first=False)
            self._hook(_ENDS, self._ends, first=_BEFORE)

    def write_all(self) -> None:
        """Of the threads that run."""
        for thread in threading.enumerate():
            self.write(thread)

    def end(self) -> None:
        """Take the hooks out where they are still ours; else they only call what was there."""
        for name, before, ours in self._hooks:
            if threading.Thread.__dict__.get(name) is ours:
                setattr(threading.Thread, name, before)
        self._hooks.clear()

    def write(self, thread: threading.Thread) -> None:
        """The name that it has now, where it has recorded anything."""
        number, name = thread.native_id, _name(thread)
        if number is None or not name or self._written.get(number) == name:
            return
        if _record.name_thread(number, _bytes(name), True):
            self._written[number] = name

    def _ends(self, thread: threading.Thread) -> None:
        self.write(thread)
        self._written.pop(thread.native_id or 0, None)

    def _began(self, thread: threading.Thread) -> None:
        number, name = thread.native_id, _name(thread)
        if number is None or not name or self._early >= EARLY:
            return
        self._early += 1
        self._written[number] = name
        _record.name_thread(number, _bytes(name), False)

    def _hook(self, name: str, act: Callable[[threading.Thread], None], first: bool) -> None:
        before = threading.Thread.__dict__.get(name)
        if before is None:  # a Python that makes its threads otherwise: names are those at the end of the recording
            return

        def ours(thread: threading.Thread) -> None:
            if first:
                act(thread)
            before(thread)
            if not first:
                act(thread)

        self._hooks.append((name, before, ours))
        setattr(threading.Thread, name, ours)


def _name(thread: threading.Thread) -> str:
    """Empty where the system has a better one: of the first thread, and of those that Python only met."""
    name = thread.name
    is_met = isinstance(thread, threading._DummyThread)
    return "" if name == "MainThread" or (is_met and name.startswith("Dummy-")) else str(name)


def _bytes(name: str) -> bytes:
    return name.replace("\0", " ").encode("utf-8", "replace")
