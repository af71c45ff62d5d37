"""A line on a terminal that says how much of the files or ranks has been read, once that has taken a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Progress = Callable[[int, int], Any] | bool | None


def _amount(size: int, /) -> str:
    number = float(size)
    for unit in ("B", "kB", "MB"):  # noqa: B007  used after the loop
        if number < 1000:
            break
        number /= 1000
    else:
        unit = "GB"
    return f"{number:.3g} {unit}"


class Line:
    """Called with bytes done and in all; each time done falls it is another reading, and at the end of one the line is
    wiped."""

    what = "reading"
    amount = staticmethod(_amount)

    def __init__(self, stream: TextIO, patience: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.patience, self.clock = stream, patience, clock
        self.begin: float | None = None
        self.shown: float | None = None
        self.last = 0

    def __call__(self, done: int, total: int) -> None:
        now = self.clock()
        if self.begin is None or done < self.last:
            self.begin = now
        self.last = done
        if now - self.begin >= self.patience and (self.shown is None or now - self.shown >= 0.1):
            of = f" of {self.amount(total)}, {100 * done // total} %" if total > 0 else ""
            self.stream.write(f"\r{self.what} {self.amount(done)}{of}\033[K")
            self.stream.flush()
            self.shown = now
        if total > 0 and done >= total:
            self.wipe()

    def wipe(self) -> None:
        if self.shown is not None:
            self.stream.write("\r\033[K")
            self.stream.flush()
        self.begin = self.shown = None
        self.last = 0


def _number(ranks: int, /) -> str:
    return str(ranks)


class RanksLine(Line):
    """The same with numbers of ranks."""

    what = "ranks summarized:"
    amount = staticmethod(_number)


def chosen(progress: Progress, line: type[Line] = Line) -> Callable[[int, int], Any] | None:
    """What is to be called: the caller's own; True = a line on standard error, None = the same where that is a
    terminal; False = nothing."""
    if callable(progress):
        return progress
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return line(sys.stderr) if progress or (progress is None and terminal) else None
