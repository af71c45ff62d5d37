"""Steps behind the recording: each is timed, and of one that takes long the stack is noted. A thread looks at the
number of the step now and then, which takes some 20 us; no hook but that of the step is needed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from .threads import frame_place

FLUSH_SECONDS = 0.1
LOOK_SECONDS = 0.02
TIMES = 2  # of the usual step
LOOKS_MOST, STACKS_MOST = 3, 64  # in one step, and of all
STACK_BYTES = 3000


def _stack(frame: FrameType | None) -> str:
    """From the inside out, as in recordings."""
    places: list[str] = []
    length = 0
    while frame is not None and length < STACK_BYTES:
        place = frame_place(frame)
        if not place.startswith("torch/"):
            places.append(place)
            length += len(place)
        frame = frame.f_back
    return ";".join(places)


class LongSteps:
    """begin() and add() are called where a step begins and ends. Lines of the log are written some at a time."""

    def __init__(self, usual_ns: int, write: Callable[[str], None]):
        self._write = write
        self._lines: list[str] = []
        self._flushed_s = self._begun_s = time.monotonic()
        self._thread, self._number = threading.get_ident(), -1
        self._least_s = max(TIMES * usual_ns / 1e9, LOOK_SECONDS)
        self._end = threading.Event()
        threading.Thread(target=self._look, name="tachograph", daemon=True).start()

    def begin(self, number: int) -> None:
        self._begun_s, self._number = time.monotonic(), number

    def pause(self) -> None:
        """What comes belongs to no step."""
        self._number = -1

    def add(self, number: int, dur_ns: int, cpu_ns: int) -> None:
        self._lines.append(f"step rest {number} {dur_ns} {cpu_ns}")
        now_s = time.monotonic()
        if now_s - self._flushed_s > FLUSH_SECONDS:
            self._flushed_s = now_s
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        for line in lines:
            self._write(line)

    def close(self) -> None:
        self._end.set()
        self._flush()

    def _look(self) -> None:
        last, looks, stacks = -1, 0, 0
        while stacks < STACKS_MOST and not self._end.wait(LOOK_SECONDS):
            number = self._number
            if number != last:
                last, looks = number, 0
            if number < 0 or looks >= LOOKS_MOST or time.monotonic() - self._begun_s < self._least_s:
                continue
            frame = sys._current_frames().get(self._thread)
            stack, is_there = _stack(frame), self._number == number
            del frame
            if is_there:
                looks, stacks = looks + 1, stacks + 1
                self._write(f"long {number} {stack}")
