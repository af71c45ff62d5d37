"""Messages of the recorder: warnings, and lines on the logger "tachograph". Nothing on standard output."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator

log = logging.getLogger("tachograph")
_said: set[str] = set()
_elsewhere: Callable[[str], None] | None = None  # takes what would be printed
_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


@contextlib.contextmanager
def diverted(take: Callable[[str], None]) -> Iterator[None]:
    """Nothing is printed meanwhile: take() gets the warnings, and the logger says nothing."""
    global _elsewhere
    before, _elsewhere = (_elsewhere, log.disabled), take
    log.disabled = True
    try:
        yield
    finally:
        _elsewhere, log.disabled = before


def info(line: str) -> None:
    """One line for the user. It reaches standard error unless the program has set up logging itself, or
    TACHOGRAPH_QUIET is set."""
    if heard():
        log.info(line)


def heard() -> bool:
    """Whether messages of info() are shown."""
    if log.disabled:
        return False
    if not log.hasHandlers() and not os.environ.get("TACHOGRAPH_QUIET"):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tachograph: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    return log.hasHandlers() and log.isEnabledFor(logging.INFO)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that names the caller's line, however deep in this package it arose."""
    if _elsewhere is not None:
        _elsewhere(text)
        return
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, category, stacklevel=depth)


def warn_once(text: str, category: type[Warning] = UserWarning) -> None:
    if text not in _said:
        _said.add(text)
        warn(text, category)


def size_text(size: int) -> str:
    """1234567 → 1.2 MB"""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
