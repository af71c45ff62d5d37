"""Frames about how device time divides: temporal, by type, by kernel, by annotation, and idle time by cause."""

from __future__ import annotations

from typing import Any

from .. import _frames
from ..common.trace import Trace

TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")
TEMPORAL = [
    ("rank", "int64"),
    *((f"{part}_time(us)", "float64") for part in ("idle", "compute", "non_compute", "kernel")),
    *((f"{part}_time_pctg", "float64") for part in ("idle", "compute", "non_compute")),
]
KERNEL_TYPE = [("kernel_type", "object"), ("sum", "float64"), ("percentage", "float64")]
STATISTICS = [
    ("sum (us)", "float64"),
    ("max (us)", "float64"),
    ("min (us)", "float64"),
    ("stddev", "float64"),
    ("mean (us)", "float64"),
]
KERNEL = [("name", "object"), *STATISTICS, ("kernel_type", "object"), ("rank", "int64")]
ANNOTATION = [("name", "object"), *STATISTICS, ("rank", "int64")]
# Not the device work they launched, for which the engine goes over all events.
ANNOTATED = ["name", "side", "calls", *(f"{c}_ns" for c in ("total", "max", "min", "mean", "std"))]
IDLE = [
    ("rank", "int64"),
    ("stream", "int64"),
    ("idle_category", "object"),
    ("idle_time", "float64"),
    ("idle_time_ratio", "float64"),
]
INTERVALS = [("rank", "int64"), ("stream", "int64"), *((name, "float64") for name in _frames.DESCRIBED)]


def temporal(t: Trace) -> Any:
    parts = []
    for rank in t.get_ranks():
        table = t.ask("breakdown", rank)
        if table is None or len(table) == 0:
            continue
        columns = {"rank": [rank] * len(table)}
        columns.update(
            {
                f"{part}_time(us)": _frames.micros(table, f"{column}_ns")
                for part, column in (
                    ("idle", "idle"),
                    ("compute", "compute"),
                    ("non_compute", "non_compute"),
                    ("kernel", "kernel_time"),
                )
            }
        )
        columns.update(
            {
                f"{part}_time_pctg": _frames.reals(table, f"{part}_pct").round(2)
                for part in ("idle", "compute", "non_compute")
            }
        )
        parts.append(_frames.frame(columns))
    return _frames.stacked(parts, TEMPORAL)


def kernel_types(t: Trace, include_memory_kernels: bool) -> Any:
    import numpy

    sums: dict[str, float] = {}
    for rank in t.get_ranks():
        table = t.ask("kernel_types", rank, memory=include_memory_kernels)
        for label, total in (
            zip(_frames.texts(table, "type"), _frames.micros(table, "total_ns")) if table is not None else ()
        ):
            sums[label] = sums.get(label, 0) + total
    labels = sorted(sums, key=lambda label: -sums[label])
    values = numpy.array([sums[label] for label in labels], dtype=numpy.float64)
    if not labels:
        return _frames.empty(KERNEL_TYPE)
    share = (100 * values / values.sum()).round(1) if values.sum() else numpy.full(len(values), numpy.nan)
    return _frames.frame(
        {
            "kernel_type": numpy.array(labels, dtype=object),
            "sum": values.astype(numpy.int64) if t.hta_compat else values,
            "percentage": share,
        }
    )


# ---- names and their figures, small ones put together as "others" ------------------------------------------


class _Figures:
    """Names of these rows of the answer, longest sum first as they come, with count, and sum, max, min, sample
    deviation and mean in µs."""

    def __init__(self, table: Any, rows: slice):
        import numpy

        self.names = numpy.array(list(table["name"])[rows], dtype=object)
        self.count = numpy.asarray(table["calls"])[rows]
        self.values = (
            numpy.array([numpy.asarray(table[f"{c}_ns"])[rows] for c in ("total", "max", "min", "std", "mean")])
            / 1000.0
        )
        self.sum, self.max, self.min, self.std, self.mean = self.values
        self.std[numpy.isnan(self.std)] = 0.0

    def pooled(self, small: Any) -> tuple:
        """The figures of all calls of the small names together."""
        count, total = self.count[small].sum(), self.sum[small].sum()
        mean = total / count
        squares = (
            (self.count[small] - 1) * self.std[small] ** 2 + self.count[small] * (self.mean[small] - mean) ** 2
        ).sum()
        std = (squares / (count - 1)) ** 0.5 if count > 1 else 0.0
        return (total, self.max[small].max(), self.min[small].min(), std, mean)


def _small_names(figures: _Figures, ratio: float, most: int, allowed: list[str], hta_compat: bool) -> Any:
    """Which names are put together: those beyond the first `most`, and those after the share `ratio` of the time is
    reached. HTA takes the quantile of the running sums for that share."""
    import numpy

    running = figures.sum.cumsum()
    beyond = running > numpy.quantile(running, ratio) if hta_compat else running - figures.sum >= ratio * running[-1]
    small = beyond | (numpy.arange(len(running)) >= most)
    return small & ~numpy.array([any(part in name for part in allowed) for name in figures.names], dtype=bool)


def _with_others(figures: _Figures, ratio: float, most: int, allowed: list[str], hta_compat: bool) -> tuple[Any, Any]:
    """At most that many names and their figures, the rest as one. HTA then describes the sums of the names, not their
    calls: each name that stays has its sum for maximum, minimum and mean."""
    import numpy

    if len(figures.names) <= most:
        return figures.names, figures.values
    small = _small_names(figures, ratio, most, allowed, hta_compat)
    names, values, sums = figures.names[~small], figures.values[:, ~small], figures.sum[small]
    if hta_compat:
        values[1:] = values[0]
        values[3] = 0.0
    if not len(sums):
        return names, values
    std = sums.std(ddof=1) if len(sums) > 1 else 0.0
    pooled = (sums.sum(), sums.max(), sums.min(), std, sums.mean()) if hta_compat else figures.pooled(small)
    return numpy.append(names, "others"), numpy.column_stack((values, pooled))


def _frame_of(rows: list[tuple], kinds: list[tuple[str, str]], keys: tuple[str, ...]) -> Any:
    """Rows sorted by these columns."""
    import numpy

    if not rows:
        return _frames.empty(kinds)
    names = [name for name, _ in kinds]
    places = [names.index(k) for k in keys]
    rows = sorted(rows, key=lambda row: tuple(row[p] for p in places))
    return _frames.frame(
        {name: numpy.array([row[i] for row in rows], dtype=kind) for i, (name, kind) in enumerate(kinds)}
    )


def kernels(t: Trace, duration_ratio: float, num_kernels: int, include_memory_kernels: bool) -> Any:
    import numpy

    rows: list[tuple[Any, ...]] = []
    for rank in t.get_ranks():
        table = t.ask(
            "kernel_breakdown", rank, kernels=num_kernels, ratio=duration_ratio, memory=include_memory_kernels
        )
        if table is None:
            continue
        std = numpy.nan_to_num(_frames.micros(table, "std_ns"), nan=0.0)
        rows += zip(
            _frames.texts(table, "name"),
            *(_frames.micros(table, f"{c}_ns") for c in ("total", "max", "min")),
            std,
            _frames.micros(table, "mean_ns"),
            _frames.texts(table, "type"),
            [rank] * len(table),
        )
    return _frame_of(rows, KERNEL, ("kernel_type", "name", "rank"))


def user_annotations(
    t: Trace, use_gpu_annotation: bool, duration_ratio: float, num_kernels: int, allowlist: list[str]
) -> Any | None:
    """Ranks one below the other, each in the order of its names."""
    import numpy

    side, parts = "gpu" if use_gpu_annotation else "cpu", []
    for rank in t.get_ranks():
        table = t.ask("annotations", rank, columns=ANNOTATED)
        sides = [] if table is None else list(table["side"])  # of the host first
        if side not in sides:
            continue
        first = sides.index(side)
        names, values = _with_others(
            _Figures(table, slice(first, first + sides.count(side))),
            duration_ratio,
            num_kernels,
            allowlist,
            t.hta_compat,
        )
        order = sorted(range(len(names)), key=names.__getitem__)
        parts.append((names[order], values[:, order], numpy.full(len(order), rank)))
    if not parts:
        return None
    names, values, ranks = parts[0] if len(parts) == 1 else (numpy.concatenate(part, axis=-1) for part in zip(*parts))
    return _frames.frame({"name": names, tuple(name for name, _ in STATISTICS): values, "rank": ranks})


# ---- idle time ---------------------------------------------------------------------------------------------


def idle(t: Trace, ranks: list[int], streams: list[int] | None, delay_us: float) -> tuple[Any, Any]:
    """Idle time by stream and cause, and the intervals behind it."""
    import pandas

    shares, intervals = [], []
    for rank in ranks:
        table = t.ask("idle", rank, delay_us=delay_us)
        if table is None or len(table) == 0:
            continue
        stream, cause = _frames.small(_frames.integers(table, "stream")), _frames.texts(table, "cause")
        shares.append(
            _frames.frame(
                {
                    "rank": [rank] * len(table),
                    "stream": stream,
                    "idle_category": cause,
                    "idle_time": _frames.micros(table, "idle_ns").round(2),
                    "idle_time_ratio": (_frames.reals(table, "pct") / 100).round(2),
                }
            )
        )
        described = {
            "count": _frames.reals(table, "intervals"),
            **{
                name: _frames.micros(table, column).round(2)
                for name, column in zip(
                    _frames.DESCRIBED[1:], ("mean_ns", "std_ns", "min_ns", "p25_ns", "p50_ns", "p75_ns", "max_ns")
                )
            },
        }
        intervals.append(
            _frames.frame(
                {"rank": [rank] * len(table), "stream": stream, **described},
                pandas.Index(cause, dtype=object, name="idle_category"),
            )
        )
    first, second = _frames.stacked(shares, IDLE, renumber=False), _frames.stacked(intervals, INTERVALS, renumber=False)
    if not intervals:
        second = second.set_index(pandas.Index([], dtype="object", name="idle_category"))
    if streams:
        first, second = (
            first[first["stream"].isin(streams)].reset_index(drop=True),
            second[second["stream"].isin(streams)],
        )
    return first, second
