"""profile(nvtx=True): one NVTX range per operator while a window is recorded, so that a capture by Nsight Systems is
labelled."""

from __future__ import annotations

import threading
from typing import Any

import torch

from .._collect.nvtx_ranges import named_tool
from .._say import warn, warn_once


def unavailable() -> str | None:
    """Why no NVTX ranges can be made here, None if they can."""
    if torch.version.cuda is None:
        return "this torch is built without CUDA, which has the NVTX library"
    return None if torch.cuda.is_available() else "no CUDA device can be used here"


class NvtxRanges:
    """torch's own emit_nvtx, from the start of a window to its end."""

    def __init__(self, record_shapes: bool) -> None:
        self._record_shapes = record_shapes
        self._ranges: Any = None
        self._thread = 0

    def begin(self, kind: str) -> None:
        """kind: the recorder of the window."""
        reason = unavailable()
        if named_tool()[1]:
            reason = reason or "NVTX_INJECTION64_PATH names our recorder, which records the operators themselves"
        if kind == "kineto":
            reason = reason or "torch's own collector records, and it makes either a recording or ranges"
        if reason:
            warn_once(f"nvtx=True: no NVTX ranges are made: {reason}")
            return
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=self._record_shapes)
        ranges.__enter__()
        self._ranges, self._thread = ranges, threading.get_ident()

    def end(self) -> None:
        ranges, self._ranges = self._ranges, None
        if ranges is None:
            return
        if self._thread == threading.get_ident():
            ranges.__exit__(None, None, None)
        else:
            warn(
                "nvtx=True: the profiler is stopped by another thread than the one that started it, where its ranges cannot be ended: they go on"
            )
