"""What `tachograph attach` starts in a program that runs already: a recording that begins at once, and after which
nothing is left: no thread, no hook, no open file. It works in a thread of its own; the program's threads are never
held."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time

from . import session
from .session import Session
from .window import AttachedWindow

LOOK_SECONDS = 0.02
REST_SECONDS = 2.0  # most that is spent on steps that are not recorded, to compare with


def record(text: str) -> None:
    """The whole recording, in the thread that calls. text: the settings, as `tachograph run` has them. An error is a
    line of the log."""
    settings = json.loads(text)
    log = session.Log(settings["dir"])
    try:
        if session.current() is not None:
            raise RuntimeError("tachograph run or attach records this process already")
        if session.is_starter():
            raise RuntimeError("this process starts the ranks and computes nothing: attach to one of its children")
        AttachedSession(settings, log).follow()
    except Exception as error:
        log.write(f"note not recorded: {error}")
        log.write("end")
    finally:
        log.close()


class AttachedSession(Session):
    first_phase = "window"
    alternates = False  # one recording, and the program is left as it was
    window: AttachedWindow

    def __init__(self, settings: dict, log: session.Log):
        self._lock = threading.RLock()
        self._since_s = time.monotonic()
        self._stop = os.path.join(settings["dir"], "stop")
        super().__init__(settings, log)
        session.set_current(self)
        self.finder.join_running()

    def _new_window(self) -> AttachedWindow:
        return AttachedWindow(self.settings["steps"], self.settings["seconds"], self.settings["bytes"])

    def _watch_rank(self) -> None:
        """The ranks have met long ago."""
        distributed = sys.modules.get("torch.distributed")
        if self.rank < 0 and distributed is not None and distributed.is_available() and distributed.is_initialized():
            self.rank = distributed.get_rank()

    def _boundary(self) -> None:
        with self._lock:
            super()._boundary()

    def _finish(self) -> None:
        with self._lock:
            super()._finish()

    def forked(self) -> None:
        self._lock = threading.RLock()  # a thread that the child lacks may hold the parent's
        super().forked()

    def follow(self) -> None:
        """Until the recording is over, by its steps, its time, or as the other side asks for it."""
        rest_until_s: float | None = None
        while not self.window.done:
            time.sleep(LOOK_SECONDS)
            now_s, is_stopped = time.monotonic(), os.path.exists(self._stop)
            with self._lock:
                if self.window.phase == "window" and (is_stopped or now_s - self._since_s >= self.settings["seconds"]):
                    self.window.end()
                    self._change(self.window.phase)
            if self.window.phase == "after" and rest_until_s is None:
                rest_until_s = now_s + REST_SECONDS
            if rest_until_s is not None and (is_stopped or now_s >= rest_until_s or not self.window.count):
                break
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self.window.done = True
            self.finder.remove()
            super()._finish()
        atexit.unregister(self._finish)
        session.set_current(None)
