"""The log of torch's own collector. That of torch 2.13 prints two lines on standard error for each window, whatever the
program does: not for ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

import torch

_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"  # an int; a torch that does not export it logs as it likes
_SILENT = 99  # above every severity


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Nothing is logged meanwhile, unless the program chose a level by the variable KINETO_LOG_LEVEL. The collector
    must have been prepared once: that sets the level."""
    level = None if "KINETO_LOG_LEVEL" in os.environ else _level()
    before = level.value if level is not None else 0
    if level is not None:
        level.value = _SILENT
    try:
        yield
    finally:
        if level is not None:
            level.value = before


def _level() -> ctypes.c_int | None:
    try:
        library = ctypes.CDLL(
            os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), mode=os.RTLD_NOLOAD | os.RTLD_NOW
        )
        return ctypes.c_int.in_dll(library, _LEVEL)
    except (OSError, ValueError):
        return None
