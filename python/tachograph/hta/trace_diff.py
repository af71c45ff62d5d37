"""TraceDiff: which operators and kernels of two traces are new, gone, more, fewer, slower or faster, by name."""

from __future__ import annotations

from enum import Enum
from typing import Any

from . import _frames
from .common.trace import Trace
from .utils.utils import shorten_name


class DeviceType(Enum):
    CPU = 1
    GPU = 2
    ALL = 3


_SIDES = {DeviceType.CPU: "host", DeviceType.GPU: "device", DeviceType.ALL: "all"}
Numbers = int | list[int] | None


def _chosen(given: Numbers, known: list[int], what: str) -> list[int]:
    """The numbers asked for, by default the lowest there is."""
    if given is None:
        return known[:1]
    numbers = [given] if isinstance(given, int) else list(given)
    for number in numbers:
        if number not in known:
            raise ValueError(f"{what} {number} is not in the trace; there are {', '.join(map(str, known))}")
    return numbers


class LabeledTrace:
    """A trace and the label its columns begin with. t: a Trace, or trace_dir: the folder of one; nothing is filtered or
    aligned."""

    def __init__(
        self,
        label: str | None = None,
        t: Trace | None = None,
        trace_dir: str | None = None,
        hta_compat: bool = False,
    ) -> None:
        if t is None and trace_dir is None:
            raise ValueError("a LabeledTrace needs t= (a Trace) or trace_dir= (a folder)")
        self.label = label
        self.t = t if t is not None else Trace(trace_dir=trace_dir or "", hta_compat=hta_compat)

    def ranks(self) -> list[int]:
        return self.t.get_ranks()

    def iterations(self) -> list[int]:
        """The steps of all ranks."""
        return sorted({number for rank in self.ranks() for number in self.t.get_iterations(rank)})

    def extract_ops(
        self, rank: Numbers = None, iteration: Numbers = None, device_type: DeviceType = DeviceType.ALL
    ) -> Any:
        """The complete events of these ranks and steps."""
        import pandas

        ranks, steps = _chosen(rank, self.ranks(), "rank"), self._steps(iteration)
        parts = [_of(self.t.traces[r], steps, device_type) for r in ranks]
        return pandas.concat(parts) if len(parts) > 1 else parts[0]

    def get_ops_summary(self, ops: Any) -> Any:
        """Events by category and name: count and sum of durations."""
        import numpy

        cat, name = (ops[c].to_numpy() for c in ("cat", "name"))
        kinds = max(len(self.t.symbol_table.sym_table), 1)
        keys, inverse = numpy.unique(cat * kinds + name, return_inverse=True)
        texts = self.t.symbol_table.sym_table
        rows = [(texts[k // kinds], texts[k % kinds], k // kinds, k % kinds) for k in map(int, keys)]
        counts = numpy.bincount(inverse, minlength=len(keys)).astype(numpy.int64)
        sums = numpy.bincount(inverse, weights=ops["dur"].to_numpy(), minlength=len(keys))
        order = sorted(range(len(rows)), key=lambda i: rows[i][:2])
        column = {c: [rows[i][k] for i in order] for k, c in enumerate(("cat", "name", "cat_id", "name_id"))}
        return _frames.frame(
            {
                "cat": numpy.array(column["cat"], dtype=object),
                "name": numpy.array(column["name"], dtype=object),
                "short_name": numpy.array([shorten_name(str(n)) for n in column["name"]], dtype=object),
                "counts": counts[order],
                "total_duration": self._duration(sums[order]),
                "cat_id": numpy.array(column["cat_id"], dtype=numpy.int64),
                "name_id": numpy.array(column["name_id"], dtype=numpy.int64),
            }
        )

    # ---- for comparing -------------------------------------------------------------------------------------

    def totals(
        self, rank: Numbers, iteration: Numbers, device_type: DeviceType, use_short_name: bool
    ) -> dict[str, tuple[int, float]]:
        """name -> how often, how long."""
        found: dict[str, tuple[int, float]] = {}
        steps = ",".join(map(str, self._steps(iteration)))
        for r in _chosen(rank, self.ranks(), "rank"):
            table = self.t.sums(r, "name", iteration=steps, side=_SIDES[device_type])
            columns = (
                _frames.texts(table, "name"),
                _frames.integers(table, "events").tolist(),
                self._duration(_frames.reals(table, "dur_us")).tolist(),
            )
            for name, count, total in zip(*columns):
                name = shorten_name(name or "") if use_short_name else name or ""
                before = found.get(name, (0, 0))
                found[name] = (before[0] + count, before[1] + total)
        return found

    def _duration(self, sums: Any) -> Any:
        whole = sums.astype("int64")
        return whole if (whole == sums).all() else sums

    def _steps(self, iteration: Numbers) -> list[int]:
        known = self.iterations()
        if not known:
            raise ValueError(
                f"the trace {self.label or ''} has no steps: record it with profiler.step() called once an iteration, "
                "so that ProfilerStep#… annotations say which events belong together"
            )
        return _chosen(iteration, known, "iteration")


def _of(frame: Any, steps: list[int], device_type: DeviceType) -> Any:
    kept = frame["iteration"].isin(steps)
    if device_type is not DeviceType.ALL:
        kept &= (frame["stream"] != -1) if device_type is DeviceType.GPU else (frame["stream"] == -1)
    return frame.loc[kept]


def _labeled(trace: LabeledTrace | Trace | str, label: str, hta_compat: bool) -> LabeledTrace:
    if isinstance(trace, LabeledTrace):
        trace.label = trace.label or label
        return trace
    if isinstance(trace, Trace):
        return LabeledTrace(label, t=trace)
    return LabeledTrace(label, trace_dir=trace, hta_compat=hta_compat)


class TraceDiff:
    """Two traces by name. Each side is a folder, a Trace or a LabeledTrace; of several ranks and steps the lowest is
    the default."""

    @staticmethod
    def compare_traces(
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
        hta_compat: bool = False,
    ) -> Any:
        """A row a name (the index): counts and total durations (µs) of both, their differences (test - control), and
        whether the count grew (+), shrank (-) or stayed (=)."""
        import numpy
        import pandas

        a, b = _labeled(control, "Control", hta_compat), _labeled(test, "Test", hta_compat)
        left = a.totals(control_rank, control_iteration, device_type, use_short_name)
        right = b.totals(test_rank, test_iteration, device_type, use_short_name)
        names = sorted({*left, *right})
        columns = {}
        for side, found in ((a, left), (b, right)):
            columns[f"{side.label}_counts"] = numpy.array([found.get(n, (0, 0))[0] for n in names], dtype=numpy.int64)
            columns[f"{side.label}_total_duration"] = numpy.array([found.get(n, (0, 0))[1] for n in names])
        values = list(columns.values())
        columns["diff_counts"] = values[2] - values[0]
        columns["diff_duration"] = values[3] - values[1]
        columns["counts_change_categories"] = numpy.array(
            ["+" if d > 0 else "-" if d < 0 else "=" for d in columns["diff_counts"]], dtype=object
        )
        index = pandas.Index(
            numpy.array(names, dtype=object), name="short_name" if use_short_name else "name", dtype=object
        )
        return _frames.frame(columns, index)

    @staticmethod
    def ops_diff(
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        hta_compat: bool = False,
    ) -> dict[str, list[str]]:
        """Names by what became of their count: added, deleted, increased, decreased, unchanged."""
        frame = TraceDiff.compare_traces(
            control,
            test,
            control_rank,
            test_rank,
            control_iteration,
            test_iteration,
            device_type,
            hta_compat=hta_compat,
        )
        result: dict[str, list[str]] = {"added": [], "deleted": [], "increased": [], "decreased": [], "unchanged": []}
        for name, before, after in zip(frame.index, frame.iloc[:, 0], frame.iloc[:, 2]):
            kind = (
                "unchanged"
                if before == after
                else "added"
                if before == 0
                else "deleted"
                if after == 0
                else "increased"
                if after > before
                else "decreased"
            )
            result[kind].append(name)
        return result

    @staticmethod
    def visualize_counts_diff(df: Any, show_image: bool = True, export_image_path: str | None = None) -> None:
        """Bars: how much oftener each name comes in the test trace."""
        _draw(df, "diff_counts", "Counts: test − control", show_image, export_image_path)

    @staticmethod
    def visualize_duration_diff(df: Any, show_image: bool = True, export_image_path: str | None = None) -> None:
        """Bars: how much longer each name takes in the test trace."""
        _draw(df, "diff_duration", "Duration (µs): test − control", show_image, export_image_path)


def _draw(df: Any, column: str, title: str, show_image: bool, path: str | None) -> None:
    from . import _plots

    changed = df[df[column] != 0].sort_values(column)
    _plots.horizontal_bars([shorten_name(str(n)) for n in changed.index], changed[column], title, show_image, path)
