"""Notebooks: pages of text shown as they are, and the cell magic %%tachograph."""

from __future__ import annotations

import shlex
import sys
from html import escape
from typing import Any

USAGE = "%%tachograph [lean | default | deep] [-o FILE]: record the cell and show the report"
_PRESETS = ("lean", "default", "deep")


class Page(str):
    """A text that a notebook shows as it stands, and not as the spelling of a str."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return page_html(self)


def page_html(text: str) -> str:
    """Names in it come from traces, traces from strangers: all is escaped."""
    return f'<pre style="line-height: 1.2">{escape(text)}</pre>'


def _options(line: str) -> tuple[str, str | None]:
    """(preset, file to write)"""
    preset, file = "default", None
    words = iter(shlex.split(line))
    for word in words:
        if word in _PRESETS:
            preset = word
        elif word == "-o" and (file := next(words, None)):
            continue
        else:
            raise ValueError(f"{word!r}: {USAGE}")
    return preset, file


def _say(text: str) -> None:
    """The line that says what goes on, in the place of the one before; an empty one wipes it."""
    sys.stderr.write(f"\r{text}\033[K")
    sys.stderr.flush()


def _cell(shell: Any, line: str, body: str) -> Page | None:
    from .profiler import profile

    preset, file = _options(line)
    _say("tachograph: the cell is being recorded")
    with profile(preset=preset) as prof:
        result = shell.run_cell(body)
    _say("tachograph: the recording is being read")
    try:
        if file:
            prof.export_chrome_trace(file)
        page = Page(prof.trace.report())
    finally:
        _say("")
    return page if getattr(result, "success", True) else None  # the cell's own error is shown already


def load_ipython_extension(shell: Any) -> None:
    """%load_ext tachograph"""

    def tachograph(line: str, body: str) -> Page | None:
        return _cell(shell, line, body)

    tachograph.__doc__ = USAGE
    shell.register_magic_function(tachograph, "cell", "tachograph")
