"""CallGraph: what every event ran in, over threads and devices, as columns of the frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import _frames
from .._engine import release_memory
from .trace import Trace


class _Answer:
    """The rows of a rank's call graph. The engine keeps the graph, so columns are asked for as they are needed; HTA's
    rows are worked out again each time, so they come at once."""

    ALL = ("id", "track", "parent", "depth", "height", "kernels", "kernel_ns", "first_ns", "last_ns", "thread")

    def __init__(self, t: Trace, rank: int):
        self._t, self._rank = t, rank
        self._whole = self._asked(self.ALL) if t.hta_compat else None

    def _asked(self, columns: Sequence[str]) -> Any:
        return self._t.ask("call_graph", self._rank, rules=self._t.row_rules, columns=columns)

    def of(self, *columns: str) -> Any:
        return self._asked(columns) if self._whole is None else self._whole


def _rows_of(index: Any, wanted: Any) -> Any:
    """Which rows have these indices, each of which is there."""
    import numpy

    if len(index) == len(wanted) and (index == wanted).all():
        return slice(None)
    order = numpy.argsort(index, kind="stable")
    return order[numpy.minimum(numpy.searchsorted(index, wanted, sorter=order), max(len(index) - 1, 0))]


def _places_of(ids: Any, slices: Any) -> tuple[Any, Any]:
    """Where among the ids each slice is, and whether it is there."""
    import numpy

    if len(ids) == 0:
        return numpy.zeros(len(slices), dtype=numpy.int64), numpy.zeros(len(slices), dtype=bool)
    order = None if (ids[1:] > ids[:-1]).all() else numpy.argsort(ids)
    place = numpy.minimum(numpy.searchsorted(ids, slices, sorter=order), len(ids) - 1)
    place = place if order is None else order[place]
    return place, ids[place] == slices


class CallGraph:
    """Adds to the frames of these ranks (default: all): parent (index of the row it ran in; -|tid| at the top of a
    thread), depth, height, and the device work below: num_kernels, kernel_dur_sum, first_kernel_start, last_kernel_end,
    kernel_span (µs).
    -1 and 0 where a row has no place in the graph."""

    def __init__(self, trace: Trace, ranks: list[int] | None = None) -> None:
        self.trace_data = trace
        self.ranks = trace.engine.selected_ranks(ranks) if ranks else trace.get_ranks()
        self._threads: dict[int, Any] = {}
        for rank in self.ranks:
            self._add_columns(rank)
        self._mapping: Any = None

    @property
    def mapping(self) -> Any:
        """A row a thread of the host: label (main: has steps; bwd: runs autograd; else its first event), stack_index,
        stack_root (of bwd that hangs below main the root of main) and count, its place among the threads of its
        root."""
        if self._mapping is None:
            self._mapping = self._threads_of_all()
        return self._mapping

    def _threads_of_all(self) -> Any:
        import numpy

        rows: list[list[Any]] = []
        for rank, labels in self._threads.items():
            places = self.trace_data.places(rank, numpy.array(list(labels), dtype=numpy.int64))
            threads = sorted(
                zip(places["pid"].tolist(), places["tid"].tolist(), labels.values()),
                key=lambda row: [(isinstance(of, str), of) for of in row[:2]],
            )
            roots = {label: -abs(tid) if isinstance(tid, int) else -1 for _, tid, label in threads}
            both = all(sum(label == name for _, _, label in threads) == 1 for name in ("main", "bwd"))
            seen: dict[int, int] = {}
            for pid, tid, label in threads:
                root = roots["main"] if both and label == "bwd" else -abs(tid) if isinstance(tid, int) else -1
                seen[root] = seen.get(root, 0) + 1
                rows.append([rank, pid, tid, label, len(rows), root, seen[root]])
        names = ("rank", "pid", "tid", "label", "stack_index", "stack_root", "count")
        if not rows:
            return _frames.empty([(name, "object" if name == "label" else "int64") for name in names])
        return _frames.frame({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def _keep_threads(self, rank: int, answer: _Answer) -> None:
        """Tracks of the host by their labels: device work has none. Rows of a track follow one another but where HTA's
        rules order them."""
        import numpy

        table = answer.of("track", "thread")
        tracks = _frames.integers(table, "track")
        turns = numpy.append(0, numpy.flatnonzero(tracks[1:] != tracks[:-1]) + 1)[: len(tracks)]
        met, first = numpy.unique(tracks[turns], return_index=True)
        labels = [table["thread"][row] for row in turns[first].tolist()]
        self._threads[rank] = {track: label for track, label in zip(met.tolist(), labels) if label}

    def _add_columns(self, rank: int) -> None:
        """One column of the answer after the other: all of them together would be most of the memory."""
        import numpy
        import pandas

        t = self.trace_data
        answer = _Answer(t, rank)
        self._keep_threads(rank, answer)
        frame = t.get_trace(rank)
        slices = t.slices(rank)[_rows_of(t.indices(rank), frame["index"].to_numpy())]
        place, known = _places_of(_frames.integers(answer.of("id"), "id"), slices)
        all_known = known.all()

        def column(values: Any, otherwise: float) -> Any:
            if not len(values):
                return numpy.full(len(slices), otherwise)
            return values[place] if all_known else numpy.where(known, values[place], otherwise)

        def add(name: str, values: Any) -> None:
            frame[name] = pandas.Series(values, index=frame.index, copy=False)

        add("parent", _frames.small(self._parents(rank, answer, place, known)))
        for name in ("depth", "height"):
            add(name, _frames.small(column(_frames.integers(answer.of(name), name), -1)))
        kernels = _frames.small(column(_frames.integers(answer.of("kernels"), "kernels"), 0))
        add("num_kernels", kernels)
        add(
            "kernel_dur_sum",
            column(numpy.nan_to_num(_frames.micros(answer.of("kernel_ns"), "kernel_ns"), copy=False), 0.0),
        )
        first, last = (column(values, -1) for values in self._ends(rank, answer))
        none = kernels <= 0
        span = last - first
        span[none], first[none], last[none] = 0.0, -1, -1
        for name, values in (("first_kernel_start", first), ("last_kernel_end", last), ("kernel_span", span)):
            add(name, values)
        release_memory()

    def _ends(self, rank: int, answer: _Answer) -> Iterator[Any]:
        """First start and last end of the device work below, as ts of the frames. HTA's last end stays on the clock of
        the file."""
        t = self.trace_data
        for end in ("first_ns", "last_ns"):
            times = _frames.integers(answer.of(end), end, 0)
            if t.hta_compat:
                yield (times // 1000 - (t.min_ts if t.is_aligned and end == "first_ns" else 0)).astype("float64")
            else:
                yield _frames.as_micros(
                    _frames.owned(times), t.zero_of(rank) if t.is_aligned else t.zero_of(rank) - round(1000 * t.min_ts)
                )

    def _parents(self, rank: int, answer: _Answer, place: Any, known: Any) -> Any:
        """The index of what each ran in; at the top of a thread that of the thread."""
        import numpy

        parents = _frames.integers(answer.of("parent"), "parent")
        if not len(parents):
            return numpy.full(len(known), -1)
        parents = parents[place]
        tid = self.trace_data.places(rank, _frames.integers(answer.of("track"), "track")[place])["tid"]
        top = (
            -abs(tid) if tid.dtype.kind == "i" else numpy.array([-abs(of) if isinstance(of, int) else -1 for of in tid])
        )
        return numpy.where(known, numpy.where(parents >= 0, self.trace_data.indices_of(rank, parents), top), -1)

    # ---- looking at it -------------------------------------------------------------------------------------

    def _frame(self, rank: int | None) -> Any:
        return self.trace_data.get_trace(self.ranks[0] if rank is None else rank)

    def get_node_attributes(self, index: int, rank: int | None = None) -> Any:
        return self._frame(rank).loc[index]

    def get_gpu_kernels(self, rank: int | None = None) -> Any:
        """The rows of device work that hang below a call."""
        frame = self._frame(rank)
        return frame[(frame["stream"] >= 0) & (frame["depth"] >= 0)]

    def get_stack_of_node(self, index: int, rank: int | None = None, skip_ancestors: bool = False) -> Any:
        """The event with everything that ran in it and, unless skip_ancestors, what it ran in; by ts."""
        t, rank = self.trace_data, self.ranks[0] if rank is None else rank
        frame = t.get_trace(rank)
        slices = t.slices(rank)[t.indices(rank) == index]
        if len(slices) == 0:
            raise KeyError(index)
        table = t.ask("call_stack", rank, rules=t.row_rules, event=int(slices[0]), ancestors=not skip_ancestors)
        wanted = t.indices_of(rank, _frames.integers(table, "id"))
        return frame[frame["index"].isin(wanted)].sort_values("ts", kind="stable")
