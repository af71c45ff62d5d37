"""The recording that `tachograph attach` makes in a program that runs already (enter.py loads this): it begins at once,
and after it nothing is left, no thread, no hook, no open file.

It works in a thread of its own. The program's threads come here at the end of a step and when they fork; they never
wait for a file to be opened, closed or written out. Everything that changes the program is an assignment to one
attribute; nothing is imported from torch, and Python's import system is left as it is."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from .. import _say
from . import fork_warning, session
from .enter import Unforked
from .recorders import Recorder
from .session import Session, harmless
from .steps import StepFinder
from .window import AttachedWindow

LOOK_SECONDS = 0.02
REST_SECONDS = 2.0  # most that is spent on steps that are not recorded, to compare with
FORK_SECONDS = 5.0  # longest that a fork waits until a file is opened or closed


_logs: set[session.Log] = set()  # that are open: a child that is forked closes them


def record(text: str, pause: Callable[[float], bool]) -> None:
    """The whole recording, in the thread that calls. text: the settings, as `tachograph run` has them. pause(seconds)
    is True when the program ends."""
    settings = {**json.loads(text), "attached": True}
    with logged(settings["dir"], "recorded") as log:
        refuse_second()
        if session.is_starter():
            raise RuntimeError("this process starts the ranks and computes nothing: attach to one of its children")
        AttachedSession(settings, log).follow(pause)


@contextlib.contextmanager
def logged(folder: str, done: str) -> Iterator[session.Log]:
    """The log of what is done in here: it has what would be printed, and an error is a line of it."""
    with Unforked():
        log = session.Log(folder)
        _logs.add(log)
    try:
        with _say.diverted(lambda said: log.write(f"note {said}")):
            yield log
    except Exception as error:
        log.write(f"note not {done}: {error}")
    finally:
        log.write("end")
        with Unforked():
            _logs.discard(log)
            log.close()


def refuse_second() -> None:
    watched = sys.modules.get("tachograph._launch.watched")
    if watched is not None and watched.current() is not None:
        raise RuntimeError("tachograph watch watches this process: end that first")
    if session.current() is not None:
        raise RuntimeError("tachograph run or attach records this process already")


class AttachedSession(Session):
    first_phase = "window"
    alternates = False  # one recording, and the program is left as it was
    window: AttachedWindow

    def __init__(self, settings: dict, log: session.Log):
        self._lock = threading.RLock()  # what a step's end and our thread both change
        self._file = threading.RLock()  # held by our thread while it opens or closes
        self._stop = os.path.join(settings["dir"], "stop")
        self._ended: Recorder | None = None  # paused, and to be closed
        self._calls: dict[int, tuple[int, str, int, int]] = {}  # thread → number of its step, phase, wall and CPU ns
        session.set_current(self)
        try:
            with self._file:
                super().__init__(settings, log)
            self._since_s = time.monotonic()  # opening took its time, which is no part of the seconds asked for
            self.finder.join_running()
        except BaseException:
            self._leave()
            raise

    def _new_window(self) -> AttachedWindow:
        return AttachedWindow(self.settings["steps"], self.settings["seconds"], self.settings["bytes"])

    def _watch(self) -> None:
        """The ranks have met long ago, and the end of the program is watched by enter.py."""
        distributed = sys.modules.get("torch.distributed")
        if self.rank < 0 and distributed is not None and distributed.is_available() and distributed.is_initialized():
            self.rank = distributed.get_rank()

    def _find_steps(self) -> None:
        """A thread of the program may meet a hook before the finder is made: it waits for that."""
        with self._lock:
            super()._find_steps()

    def _kind(self) -> None:
        with self._lock:
            super()._kind()

    def _boundary(self) -> None:
        with self._lock:
            super()._boundary()

    def _new_finder(self) -> StepFinder:
        return StepFinder(self.torch, self._kind, self._boundary, self._break, joins=True, on_call=self._call)

    @harmless
    def _call(self, begins: bool) -> None:
        """A step that is one call, on one of several threads. One that the window's end cuts off does not count."""
        thread, now_ns, cpu_ns = threading.get_native_id(), time.perf_counter_ns(), time.thread_time_ns()
        with self._lock:
            if self.window.done:
                return
            if begins:
                self._calls[thread] = self._number, self.window.phase, now_ns, cpu_ns
                if self.recorder is not None:
                    self.recorder.step_begin(self._number)
                self._number += 1
                return
            number, phase, begun_ns, begun_cpu_ns = self._calls.pop(thread, (0, "", 0, 0))
            if phase != self.window.phase:
                return
            if self.recorder is not None:
                self.recorder.step_end()
            self._note_step(phase, number, now_ns - begun_ns, cpu_ns - begun_cpu_ns)
            disk_bytes = self.recorder.disk_bytes() if self.window.bytes and self.recorder is not None else 0
            next_phase = self.window.boundary(now_ns - begun_ns, disk_bytes, self._number)
            if next_phase != phase:
                self._change(next_phase)

    def _change(self, phase: str) -> None:
        """The window is over: what comes now is not recorded any more. The file is closed by our thread."""
        self._ended, self.recorder = self.recorder, None
        if self._ended is not None:
            self._ended.pause(True)
        self.log.write(f"phase {phase} {self._number}")

    def _unwatch(self) -> None:
        """Hooks are taken off by our thread: one that removed itself would change what torch iterates over."""

    def abandon(self, reason: str) -> None:
        with contextlib.suppress(Exception):
            self.window.done = True
            self.log.write(f"note recording ended early: {reason}")

    def follow(self, pause: Callable[[float], bool]) -> None:
        """Until the recording is over, by its steps, its time, the end of the program, or as the other side asks."""
        rest_until_s: float | None = None
        try:
            while not self.window.done:
                is_stopped = pause(LOOK_SECONDS) or os.path.exists(self._stop)
                if fork_warning.is_due():
                    fork_warning.restore()
                now_s = time.monotonic()
                with self._lock:
                    self.finder.look()
                    if self.recorder is not None:
                        self.recorder.look()
                    over = is_stopped or now_s - self._since_s >= self.settings["seconds"]
                    if self.window.phase == "window" and over:
                        self.window.end()
                        self._change(self.window.phase)
                self._close_ended()
                if self.window.phase == "after" and rest_until_s is None:
                    rest_until_s = now_s + REST_SECONDS
                if rest_until_s is not None and (is_stopped or now_s >= rest_until_s or not self.window.count):
                    break
        finally:
            self._leave()

    def _close_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            with self._file:
                self._close_recorder(ended)

    def _leave(self) -> None:
        """Each of these though another fails."""
        self.window.done = True
        finder = getattr(self, "finder", None)
        for step in (finder.remove if finder else None, self._end_recording, self._close_ended):
            try:
                if step is not None:
                    step()
            except Exception as error:
                self.log.write(f"note {type(error).__name__} at the end of the recording: {error}")
        session.set_current(None)
        fork_warning.restore()

    def _end_recording(self) -> None:
        with self._lock:
            if self.recorder is not None:
                self._change("after")

    # ---- forks of the program

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No file is being opened or closed, and no step ends, in here; or one of them takes very long."""
        taken = [lock for lock in (self._file, self._lock) if lock.acquire(timeout=FORK_SECONDS)]
        try:
            yield
        finally:
            for lock in taken:
                lock.release()

    def forked(self) -> None:
        """In the child, which is not recorded: it has none of our threads, and keeps none of our hooks."""
        self._lock, self._file = threading.RLock(), threading.RLock()
        self.window.done = True
        session.set_current(None)
        fork_warning.restore()
        with contextlib.suppress(Exception):
            self.finder.remove()
        for recorder in (self.recorder, self._ended):
            if recorder is not None:
                with contextlib.suppress(Exception):
                    recorder.forget()
        self.recorder = self._ended = None


_holding: dict[int, contextlib.ExitStack] = {}  # of each thread that forks: several may wait for their turn


def _before_fork() -> None:
    attached = session.current()
    if isinstance(attached, AttachedSession):
        holding = _holding[threading.get_ident()] = contextlib.ExitStack()
        holding.enter_context(attached.held())
        with contextlib.suppress(Exception):  # a fork of the program goes on whatever is wrong here
            fork_warning.silence()


def _after_fork() -> None:
    holding = _holding.pop(threading.get_ident(), None)
    if holding is not None:
        holding.close()


def _in_child() -> None:
    _holding.clear()
    for log in _logs:
        with contextlib.suppress(OSError):
            log.close()
    _logs.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
