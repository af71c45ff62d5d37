"""MemoryAnalysis: PyTorch's raw memory timeline (export_memory_timeline, .raw.json.gz) as stacked curves by
category."""

from __future__ import annotations

import gzip
import json
from enum import Enum
from typing import Any


class Category(Enum):
    """The numbers in the file, in the order in which they are stacked."""

    PARAMETER = 0
    OPTIMIZER_STATE = 1
    INPUT = 2
    TEMPORARY = 3
    ACTIVATION = 4
    GRADIENT = 5
    AUTOGRAD_DETAIL = 6
    UNKNOWN = 7


LABELS = ("Parameter", "Optimizer state", "Input", "Temporary", "Activation", "Gradient", "Autograd", "Unknown")


class MemoryAnalysis:
    """path: a raw memory timeline, a list of [time in ns, action, bytes, category]."""

    def __init__(self, path: str, hta_compat: bool = False) -> None:
        self.path, self.hta_compat = path, hta_compat
        self.times, self.sizes = self._process_raw_events()

    def _entries(self) -> list[list[int]]:
        with (gzip.open if str(self.path).endswith(".gz") else open)(self.path, "rb") as f:
            entries = json.load(f)
        if not isinstance(entries, list) or not all(
            isinstance(e, list) and len(e) == 4 and 0 <= e[3] < len(LABELS) for e in entries
        ):
            raise ValueError(
                f"{self.path} is no raw memory timeline: a list of [time, action, bytes, category] was expected"
            )
        return entries

    def _process_raw_events(self) -> tuple[Any, Any]:
        """Times (ns) and, for each, the bytes held by every category. Memory from before the recording (time -1)
        counts from the first time on; HTA has a snapshot of its own for it at that time."""
        import numpy

        entries = numpy.array(self._entries(), dtype=numpy.int64).reshape(-1, 4)
        times, amounts, kinds = entries[:, 0].copy(), entries[:, 2], entries[:, 3]
        before = times == -1
        if before.all():
            return numpy.empty(0, dtype=numpy.int64), numpy.zeros((0, len(LABELS)), dtype=numpy.int64)
        times[before] = times[~before].min()
        held = numpy.zeros((len(entries), len(LABELS)), dtype=numpy.int64)
        held[numpy.arange(len(entries)), kinds] = amounts
        held = held.cumsum(axis=0)
        last = numpy.append(numpy.diff(times) != 0, True)
        if self.hta_compat:
            last |= numpy.append(numpy.diff(before.astype(numpy.int8)) != 0, False)
        return times[last], held[last]

    def to_frame(self) -> Any:
        """One row a snapshot: time (ns), a column a category, total (bytes)."""
        import pandas

        frame = pandas.DataFrame(self.sizes, columns=list(LABELS))
        frame.insert(0, "time", self.times)
        frame["total"] = self.sizes.sum(axis=1)
        return frame

    def plot_memory_timeline(self, save_graph: bool = False, show: bool | None = True) -> None:
        """Milliseconds from 0 against GiB, stacked. save_graph: also written beside the file, as a page."""
        from . import _plots

        if len(self.times) == 0:
            return
        curves = {label: self.sizes[:, i] / 1024**3 for i, label in enumerate(LABELS)}
        path = f"{self.path}.html" if save_graph else None
        _plots.areas((self.times - self.times[0]) / 1e6, curves, "Memory timeline", "ms", "GiB", path)
