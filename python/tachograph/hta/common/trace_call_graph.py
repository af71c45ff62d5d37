"""CallGraph: what every event ran in, over threads and devices, as columns of the frames."""
from __future__ import annotations

from typing import Any, Optional

from .. import _frames
from .trace import Trace

COLUMNS = ("parent", "depth", "height", "num_kernels", "kernel_dur_sum", "first_kernel_start", "last_kernel_end", "kernel_span")


class CallGraph:
    """Adds to the frames of these ranks (default: all): parent (index of the row it ran in; -|tid| at the top of a thread), depth,
    height, and the device work below: num_kernels, kernel_dur_sum, first_kernel_start, last_kernel_end, kernel_span (µs).
    -1 and 0 where a row has no place in the graph."""

    def __init__(self, trace: Trace, ranks: Optional[list[int]] = None) -> None:
        self.trace_data = trace
        self.ranks = trace.engine.pick(ranks) if ranks else trace.get_ranks()
        for rank in self.ranks:
            self._add_columns(rank)

    def _add_columns(self, rank: int) -> None:
        import numpy
        t = self.trace_data
        table = t.ask("call_graph", rank)
        slices, index = t.slices(rank), t.indices(rank)
        ids = _frames.integers(table, "id")
        order = numpy.argsort(ids)
        place = order[numpy.minimum(numpy.searchsorted(ids, slices, sorter=order), max(len(ids) - 1, 0))] if len(ids) else numpy.zeros(len(slices), int)
        known = ids[place] == slices if len(ids) else numpy.zeros(len(slices), dtype=bool)

        def column(values: Any, otherwise: float) -> Any:
            return numpy.where(known, values[place], otherwise) if len(ids) else numpy.full(len(slices), otherwise)
        kernels = column(_frames.integers(table, "kernels"), 0)
        made = {"parent": self._parents(rank, table, place, known, slices, index), "depth": column(_frames.integers(table, "depth"), -1),
                "height": column(_frames.integers(table, "height"), -1), "num_kernels": kernels,
                "kernel_dur_sum": column(numpy.nan_to_num(_frames.micros(table, "kernel_ns")), 0.0)}
        first, last = self._ends(rank, table)
        made["first_kernel_start"], made["last_kernel_end"] = (numpy.where(kernels > 0, column(m, -1), -1) for m in (first, last))
        made["kernel_span"] = numpy.where(kernels > 0, column(last - first, 0.0), 0.0)
        frame = t.get_trace(rank)
        of_row = numpy.searchsorted(index, frame["index"].to_numpy(), sorter=numpy.argsort(index))
        rows = numpy.argsort(index)[numpy.minimum(of_row, max(len(index) - 1, 0))] if len(index) else of_row
        for name in COLUMNS:
            frame[name] = made[name][rows]

    def _ends(self, rank: int, table: Any) -> tuple[Any, Any]:
        """First start and last end of the device work below, as ts of the frames. HTA's last end stays on the clock of the file."""
        first, last = (_frames.integers(table, f"{end}_ns", 0) for end in ("first", "last"))
        t = self.trace_data
        if t.hta_compat:
            return first // 1000 - t.min_ts, last // 1000
        return (first - t.zero_of(rank)) / 1000, (last - t.zero_of(rank)) / 1000

    def _parents(self, rank: int, table: Any, place: Any, known: Any, slices: Any, index: Any) -> Any:
        import numpy
        if not len(table):
            return numpy.full(len(slices), -1)
        index_of = dict(zip(slices.tolist(), index.tolist()))
        tids = self.trace_data.places(rank, _frames.integers(self.trace_data.rows(rank), "track"))["tid"]
        parents = _frames.integers(table, "parent")[place]
        return numpy.array([-1 if not there else index_of.get(parent, -1) if parent >= 0 else -abs(tid) if isinstance(tid, int) else -1
                            for there, parent, tid in zip(known.tolist(), parents.tolist(), tids.tolist())], dtype=numpy.int64)

    # ---- looking at it -----------------------------------------------------------------------------------------------------------

    def _frame(self, rank: Optional[int]) -> Any:
        return self.trace_data.get_trace(self.ranks[0] if rank is None else rank)

    def get_node_attributes(self, index: int, rank: Optional[int] = None) -> Any:
        return self._frame(rank).loc[index]

    def get_gpu_kernels(self, rank: Optional[int] = None) -> Any:
        """The rows of device work that hang below a call."""
        frame = self._frame(rank)
        return frame[(frame["stream"] >= 0) & (frame["depth"] >= 0)]

    def get_stack_of_node(self, index: int, rank: Optional[int] = None, skip_ancestors: bool = False) -> Any:
        """The event with everything that ran in it and, unless skip_ancestors, what it ran in; by ts."""
        rank = self.ranks[0] if rank is None else rank
        frame = self._frame(rank)
        row_of = dict(zip(self.trace_data.indices(rank).tolist(), self.trace_data.slices(rank).tolist()))
        table = self.trace_data.ask("call_stack", rank, event=row_of[index], ancestors=not skip_ancestors)
        wanted = set(_frames.integers(table, "id").tolist())
        kept = frame["index"].map(row_of).isin(wanted)
        return frame[kept].sort_values("ts", kind="stable")
