"""Ranges and marks that a program makes with torch.cuda.nvtx become labels in the window, as those of record_function;
Nsight sees them as before. On a build without NVTX the calls go on raising what torch raises."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from .. import _record
from .._record import record_function


def named_tool() -> tuple[str | None, bool]:
    """The library that NVTX hands its calls to in this process, None if there is none; and whether it is ours."""
    path = os.environ.get("NVTX_INJECTION64_PATH") or None
    return path, path is not None and os.path.exists(path) and os.path.samefile(path, _record.__file__)


def _is_recorded() -> bool:
    """The recorder itself has the call: NVTX hands it over (src/capture/nvtx_table.c)."""
    return _record.nvtx() > 0 and bool(_record.state()["features"] & _record.NVTX)


class _Labelled:
    """torch's NVTX functions, which are called first, and a label for each range of a thread that the recorder does not
    get from NVTX."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self._open = threading.local()  # labels of the ranges pushed on this thread, innermost last

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def rangePushA(self, message: str) -> Any:
        depth = self.native.rangePushA(message)
        label = None if _is_recorded() else record_function(str(message))
        if label is not None:
            label.__enter__()
        vars(self._open).setdefault("labels", []).append(label)
        return depth

    def rangePop(self) -> Any:
        labels = vars(self._open).get("labels")
        label = labels.pop() if labels else None  # empty: it was pushed before the window began
        if label is not None:
            label.__exit__(None, None, None)
        return self.native.rangePop()

    def markA(self, message: str) -> Any:
        marked = self.native.markA(message)
        if not _is_recorded():
            with record_function(str(message)):
                pass
        return marked


class NvtxLabels:
    """enter() … leave(), any number of times."""

    def __init__(self) -> None:
        self._ours: Any = None

    def enter(self) -> None:
        module: Any = sys.modules.get("torch.cuda.nvtx")
        if self._ours is None and hasattr(module, "_nvtx"):
            self._ours = module._nvtx = _Labelled(module._nvtx)

    def leave(self) -> None:
        module: Any = sys.modules.get("torch.cuda.nvtx")
        if self._ours is not None and module is not None and module._nvtx is self._ours:
            module._nvtx = self._ours.native
        self._ours = None
