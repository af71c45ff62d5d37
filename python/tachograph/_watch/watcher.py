"""Follows what a watched program reports, and shows it: on the whole terminal, or a line each time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from typing import Any, TextIO

from .watch_figures import NOTHING_SEEN, Figures
from .watch_page import clean, one_line, page

LOOK_SECONDS, END_SECONDS = 0.1, 20.0
LINE_SECONDS = 1.0  # between two where the program reports nothing
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # all of the terminal without a cursor, and back


class Output:
    """Where figures go: the whole terminal, or a line each time."""

    def __init__(self, form: str, is_once: bool, width: int, file: TextIO, takes_all: bool):
        self._form, self._is_once, self._width, self._file = form, is_once, width, file
        self.is_terminal = takes_all and form == "text" and not is_once and file.isatty()
        self._why = NOTHING_SEEN  # why no lines are known, as last shown
        self._bar = "█" if (file.encoding or "").lower().replace("-", "") == "utf8" else "#"

    def __enter__(self) -> Output:
        self.turn(True)
        return self

    def __exit__(self, *_: Any) -> None:
        self.turn(False)

    def turn(self, on: bool) -> None:
        if self.is_terminal:
            self._write(ENTER if on else LEAVE)

    def suspend(self, *_: Any) -> None:
        """Ctrl-Z: the terminal is the shell's meanwhile."""
        self.turn(False)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self.suspend)
        self.turn(True)

    def show(self, figures: dict[str, Any]) -> None:
        width, height = shutil.get_terminal_size()
        width = self._width or width
        if self._form == "json":
            self._write(json.dumps(figures) + "\n")
        elif self.is_terminal:
            lines = [*page(figures, width, self._bar), "", "Ctrl-C ends the watch; the program goes on"]
            self._write("\x1b[H" + "\x1b[K\n".join(lines[: height - 1]) + "\x1b[K\n\x1b[J")
        elif self._is_once:
            self._write("\n".join(page(figures, width, self._bar)) + "\n")
        else:
            why = figures["lines"]["why"]
            is_new = why not in ("", NOTHING_SEEN, self._why)
            self._write(one_line(figures) + (f"   lines not known: {clean(why)}" if is_new else "") + "\n")
            self._why = why or self._why

    def _write(self, text: str) -> None:
        encoding = self._file.encoding or "ascii"
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        self._file.flush()


class Watcher:
    def __init__(self, folder: str, pid: int, seconds: float | None, output: Output, is_once: bool = False):
        self._folder, self._seconds, self._output, self._is_once = folder, seconds, output, is_once
        self._lease, self._log = os.path.join(folder, "lease"), os.path.join(folder, "raw", f"log-{pid}")
        self._figures = Figures(folder, pid)
        self._begun_s, self._shown_s = time.monotonic(), 0.0
        self._has_begun = False  # before its first word the program may still be on its way to it
        self.said = ""  # why it ended, where that was not asked for

    def look(self) -> bool:
        """Show what is new. False: there is nothing more to come."""
        self._touch()
        is_new, now_s = self._figures.look(), time.monotonic()
        is_over = self._seconds is not None and now_s - self._begun_s >= self._seconds
        self.said = self._ended()
        is_due = is_new or (self._figures.is_silent() and now_s - self._shown_s >= LINE_SECONDS)
        if (is_due and not self._is_once) or (self._is_once and is_over and not self.said):
            self._output.show(self._figures.now())
            self._shown_s = now_s
        return not self.said and not is_over

    def _touch(self) -> None:
        """While this is done, the program reports. The folder may be another user's: nothing in it is followed."""
        with contextlib.suppress(OSError):
            os.close(os.open(self._lease, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.utime(self._lease, follow_symlinks=False)

    def _notes(self) -> list[str]:
        try:
            with open(os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), errors="replace") as file:
                return file.read(1 << 20).splitlines()
        except OSError:
            return []

    def _ended(self) -> str:
        """Why there is nothing more to come, "" while there is."""
        lines = self._notes()
        self._has_begun = self._has_begun or bool(lines)
        if not self._figures.process.lives() or "program ends" in lines:
            return f"process {self._figures.process.pid} has ended"
        if self._has_begun and lines[-1:] in ([], ["end"]):
            said = [line.removeprefix("note ").removeprefix("not watched: ") for line in lines if "not watched" in line]
            return said[0] if said else f"process {self._figures.process.pid} reports nothing more"
        return ""

    def end(self) -> None:
        """Ask the program to end its part, and take everything away. It does so by itself where this cannot."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(os.path.join(self._folder, "stop"), flags, 0o600))
        until_s = time.monotonic() + END_SECONDS
        while time.monotonic() < until_s and not self._ended():
            time.sleep(LOOK_SECONDS / 4)
        shutil.rmtree(self._folder, ignore_errors=True)
