"""What `tachograph watch` has in a program that runs already (enter.py loads this): once a second it writes its figures
into a small file, until it is asked to end, the program ends, or no watcher looks any more. Then nothing of it is left.

Steps are found as `tachograph attach` finds them and recorded, lean, into a ring, from which the other side reads the
parts of a step. Blocks of steps are recorded and not recorded in turn: the difference is the price of watching. Lines
come from looks at one thread (src/capture/python_look.c); nothing of that needs torch."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import _record
from . import enter, session
from .attached import AttachedSession, logged, refuse_second
from .recorders import can_probe
from .window import AttachedWindow, Pairs

LOOK_SECONDS, REPORT_SECONDS = 0.1, 1.0
LEASE_SECONDS = 15.0  # longest without a sign of whoever watches
PROGRAM_ENDS = "program ends"  # a line of the log
RING_BYTES = 8 << 20
STEPS_REPORTED, PAIRS_KEPT = (
    1000,
    200,
)  # most times of steps in one second's figures; pairs of blocks that the price is of
WARM_STEPS = 5
BLOCK_NS = 250_000_000  # of steps that are recorded, or not, in a row: switching takes time that belongs to none
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")

_current: Watch | None = None


def current() -> Watch | None:
    return _current


def record(text: str, pause: Callable[[float], bool]) -> None:
    """The whole of it, in the thread that calls. text: the settings; pause(seconds) is True when the program ends."""
    global _current
    settings = {**json.loads(text), "attached": True, "preset": "lean", "bytes": RING_BYTES, "keep": "last"}
    with logged(settings["dir"], "watched") as log:
        refuse_second()
        try:
            _current = Watch(settings, log)
            log.write("watches")
            _current.follow(pause)
        finally:
            _current = None


def libraries() -> tuple[str, ...]:
    """How files of Python and of installed packages begin; those are installed beside torch, too."""
    packages = [sys.modules[name].__file__ for name in ("torch", "numpy") if name in sys.modules]
    return (
        "<frozen ",
        _LIBRARY,
        *(os.path.join(os.path.dirname(os.path.dirname(file)), "") for file in packages if file),
    )


def is_own(file: str, others: tuple[str, ...]) -> bool:
    """Is it a file of the program itself?"""
    return not file.startswith(others) and "/site-packages/" not in file and "/dist-packages/" not in file


def place_of(stack: tuple[tuple[str, int, str] | None, ...], others: tuple[str, ...]) -> tuple[str, int, str] | None:
    """The line of the program that this stack is in: the innermost of its own, else the innermost of all. The time of
    watching itself is shown as that."""
    if stack and stack[0] is not None and stack[0][0].startswith(_PACKAGE):
        return stack[0]
    known = [place for place in stack if place is not None and not place[0].startswith(_PACKAGE)]
    return next((place for place in known if is_own(place[0], others)), known[0] if known else None)


class WatchedWindow(AttachedWindow):
    """Has no end. Once a few steps were timed, blocks of steps are recorded and not recorded in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.can_rest = False

    def boundary(self, dur_ns: int | None, disk_bytes: int = 0, number: int = 0) -> str:
        self.count += dur_ns is not None
        if dur_ns is None or self.done or not self.can_rest:
            return self.phase
        if self.pairs is None:
            self._times.append(dur_ns)
            if len(self._times) >= WARM_STEPS:
                step_ns = max(sorted(self._times)[len(self._times) // 2], 1)
                self.pairs = Pairs(-(-BLOCK_NS // step_ns))
        self.phase = "window" if self.pairs is None or self.pairs.is_recorded() else "rest"
        return self.phase

    def restart(self) -> None:
        super().restart()
        self.pairs, self.phase = None, "window"


class WatchedSession(AttachedSession):
    window: WatchedWindow

    def __init__(self, settings: dict, log: session.Log):
        self.steps: list[int] = []  # how long those that ended since the last figures took
        self.step_count = 0
        self.pairs: deque[tuple[int, int]] = deque(maxlen=PAIRS_KEPT)
        self.why = ""  # no more steps are timed
        super().__init__(settings, log)
        self.window.can_rest = self.recorder is not None and can_probe(self.recorder)

    def _new_window(self) -> WatchedWindow:
        return WatchedWindow()

    def _note_step(self, phase: str, number: int, dur_ns: int, cpu_ns: int) -> None:
        self.step_count += 1
        if len(self.steps) < STEPS_REPORTED:
            self.steps.append(dur_ns)

    def _time_pair(self, cpu_ns: int) -> None:
        pairs = self.window.pairs
        pair = pairs.add(cpu_ns) if pairs is not None else None
        if pair is not None:
            self.pairs.append(pair)

    def _kind(self) -> None:
        with self._lock:
            super()._kind()
            self._change(self.window.phase)

    def _change(self, phase: str) -> None:
        """Called at the edge of a step."""
        if phase == "after":
            super()._change(phase)
        elif self.recorder is not None:
            self.recorder.pause(phase == "rest")

    def abandon(self, reason: str) -> None:
        self.why = reason
        super().abandon(reason)

    def look(self) -> None:
        with self._lock:
            self.finder.look()
            if self.recorder is not None:
                self.recorder.look()

    def leave(self) -> None:
        self._leave()

    def figures(self) -> dict[str, Any]:
        with self._lock:
            reported, self.steps = self.steps, []
            return {
                "source": self.finder.name,
                "count": self.step_count,
                "ns": reported,
                "pairs": list(self.pairs),
                "calls": self.finder.calls,
                "rests": self.window.can_rest,
                "thread": self.finder._thread if self.finder.kind is not None and not self.finder.calls else 0,
                "ring": self.recorder.path if self.recorder is not None else "",
                "why": self.why,
            }


class Lines:
    """Looks at one thread: the one that does the steps, else the one that computes most."""

    def __init__(self) -> None:
        self._own = threading.get_native_id()
        self._cpu_ns: dict[int, int] = {}
        self._ident, self._number, self._name, self._why = 0, 0, "", ""

    def follow(self, native_id: int) -> None:
        threads = {t.native_id: t for t in list(threading._active.values())}  # type: ignore[attr-defined]
        chosen = threads.get(native_id) or self._busiest(threads) or threading.main_thread()
        if chosen.ident is not None and chosen.ident != self._ident:
            self._why = _record.look_begin(chosen.ident)
            self._ident, self._number, self._name = chosen.ident, chosen.native_id or 0, chosen.name

    def _busiest(self, threads: dict) -> threading.Thread | None:
        most_ns, busiest, before, self._cpu_ns = 0, None, self._cpu_ns, {}
        for number, thread in threads.items():
            if number is None or number == self._own:
                continue
            with contextlib.suppress(OSError):  # it has ended
                now_ns = time.clock_gettime_ns(~number << 3 | 6)  # of this thread, as the kernel numbers such clocks
                self._cpu_ns[number] = now_ns
                used_ns = now_ns - before.get(number, now_ns)
                if used_ns > most_ns:
                    most_ns, busiest = used_ns, thread
        return busiest

    def figures(self) -> dict[str, Any]:
        looks, missed, stacks = _record.look_take()
        places: dict[tuple[str, int, str], int] = {}
        others = libraries()
        for times, stack in stacks:
            place = place_of(stack, others)
            if place is None:
                missed += times
            else:
                places[place] = places.get(place, 0) + times
        reported = [[times, *place] for place, times in places.items()]
        return {
            "looks": looks,
            "missed": missed,
            "thread": self._name,
            "native_id": self._number,
            "places": reported,
            "why": self._why,
        }


class Watch:
    def __init__(self, settings: dict, log: session.Log):
        self._settings, self.log = settings, log
        self._session: WatchedSession | None = None
        self._why_no_steps = "this process starts the ranks and computes nothing" if session.is_starter() else ""
        self._lines = Lines()
        self._number = 0
        self._folder = settings["dir"]
        self._lease, self._seen_ns, self._seen_s = os.path.join(self._folder, "lease"), 0, time.monotonic()

    def follow(self, pause: Callable[[float], bool]) -> None:
        stop, next_s = os.path.join(self._folder, "stop"), 0.0
        try:
            while True:
                if time.monotonic() >= next_s:
                    next_s = time.monotonic() + REPORT_SECONDS
                    self._begin_session()
                    if self._session is not None:
                        self._session.look()
                    self._report()
                if pause(LOOK_SECONDS):
                    self.log.write(PROGRAM_ENDS)
                    break
                if os.path.exists(stop) or not self._is_watched():
                    break
        finally:
            self._leave()

    def _begin_session(self) -> None:
        """As soon as the program has torch, and at a moment in which it imports nothing."""
        if self._session is not None or self._why_no_steps or enter.what_it_does(sys.modules):  # type: ignore[no-untyped-call]
            return
        try:
            self._session = WatchedSession(self._settings, self.log)
        except Exception as error:
            self._why_no_steps = str(error)

    def _is_watched(self) -> bool:
        """Whoever watches touches the file again and again: one that was killed does not."""
        now_s, seen_ns = time.monotonic(), 0
        with contextlib.suppress(OSError):
            seen_ns = os.stat(self._lease).st_mtime_ns
        if seen_ns and seen_ns != self._seen_ns:
            self._seen_ns, self._seen_s = seen_ns, now_s
        return now_s - self._seen_s < LEASE_SECONDS

    def _report(self) -> None:
        self._number += 1
        steps: dict[str, Any] = {"why": self._why_no_steps}
        if self._session is not None:
            steps = self._session.figures()
        self._lines.follow(steps.get("thread", 0))
        torch = sys.modules.get("torch")
        figures = {
            "number": self._number,
            "at_ns": time.monotonic_ns(),
            "python": "{}.{}.{}".format(*sys.version_info[:3]) + getattr(sys, "abiflags", ""),
            "torch": getattr(torch, "__version__", "") and str(torch.__version__) if torch is not None else "",
            "steps": steps,
            "lines": self._lines.figures(),
            "devices": _devices(torch),
        }
        path, text = os.path.join(self._folder, "now.json"), json.dumps(figures)
        with enter.Unforked(), open(path + ".part", "w") as file:
            file.write(text)
        os.replace(path + ".part", path)

    def _leave(self) -> None:
        """Each of these though another fails. The ring and the figures go; the log is for whoever watched, and where
        no watcher does any more, all of it goes."""
        for end in (_record.look_end, self._session.leave if self._session is not None else None):
            try:
                if end is not None:
                    end()
            except Exception as error:
                self.log.write(f"note {type(error).__name__} at the end of the watch: {error}")
        raw = os.path.join(self._folder, "raw")
        with enter.Unforked():
            found = os.listdir(raw)
        names = [os.path.join(raw, name) for name in found if not name.startswith("log-")]
        names += [os.path.join(self._folder, name) for name in ("now.json", "now.json.part")]
        is_alone = time.monotonic() - self._seen_s >= LEASE_SECONDS
        if is_alone:
            names += [self._lease, self.log.path, *(os.path.join(self._folder, name) for name in ("attach.py", "stop"))]
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(name)
        for folder in (raw, self._folder) if is_alone else ():
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _devices(torch: Any) -> list[dict[str, Any]]:
    """Memory of torch's allocator on devices that the program uses. No call waits for a device."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not hasattr(cuda, "is_initialized") or not cuda.is_initialized():
        return []
    return [
        {
            "index": index,
            "allocated": cuda.memory_allocated(index),
            "peak": cuda.max_memory_allocated(index),
            "reserved": cuda.memory_reserved(index),
        }
        for index in range(cuda.device_count())
        if cuda.memory_reserved(index)
    ]


def _in_child() -> None:
    """Of a fork: it has none of our threads."""
    global _current
    _current = None


os.register_at_fork(after_in_child=_in_child)
