"""Frames of what goes up and down over time: launches waiting per stream, and the bandwidth of copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .. import _frames
from .._overlay import us
from ..common.trace import Trace

QUARTILES = ("p25", "p50", "p75")
BLOCKED = [
    ("rank", "int64"),
    ("stream", "int64"),
    ("duration_at_max_queue_length", "float64"),
    ("relative_duration_at_max_queue_length", "float64"),
]


def queue_series(t: Trace, ranks: list[int]) -> dict[int, Any]:
    import pandas

    made = {}
    for rank in ranks:
        table = t.ask("queue", rank, by="series", columns=["stream", "ts_ns", "length", "event", "track"])
        if table is None or len(table) == 0:
            continue
        column = {name: _frames.taken(table, name) for name in table.columns}
        stream = _frames.narrow(table, "stream")
        room = [column["stream"], column["track"]]
        index = pandas.Index(column["event"], name="index", copy=False)
        made[rank] = _frames.frame(
            {
                "ts": t.moments(rank, column["ts_ns"]),
                **t.places(rank, column["track"], room),
                "stream": stream,
                "queue_length": column["length"],
            },
            index,
        )
    return made


def _summary(rows: list[tuple], keys: tuple[str, str], value: str) -> Any | None:
    """Described values under the two keys; None without a row."""
    import numpy
    import pandas

    if not rows:
        return None
    index = _frames.levels([[row[place] for row in rows] for place in range(2)], keys)
    columns = _frames.levels([[value] * len(_frames.DESCRIBED), _frames.DESCRIBED], (None, None))
    return pandas.DataFrame(
        numpy.array([row[2:] for row in rows], dtype=numpy.float64), index=index, columns=columns, copy=False
    )


def queue_summary(t: Trace, ranks: list[int]) -> Any | None:
    rows = []
    for rank in ranks:
        table = t.ask("queue", rank, by="summary")
        if table is not None:
            columns = [_frames.reals(table, c) for c in ("points", "mean", "std", "min", *QUARTILES, "max")]
            rows += [
                (rank, int(stream), *values) for stream, *values in zip(_frames.integers(table, "stream"), *columns)
            ]
    return _summary(rows, ("rank", "stream"), "queue_length")


def queue_summary_of(series: dict[int, Any]) -> Any | None:
    rows = []
    for rank, frame in series.items():
        for stream, part in frame.groupby("stream"):
            rows.append(
                (
                    rank,
                    stream,
                    *(_frames.described(part["queue_length"].to_numpy(dtype="float64"))[c] for c in _frames.DESCRIBED),
                )
            )
    return _summary(rows, ("rank", "stream"), "queue_length")


def _by_stream(frame: Any) -> tuple[Any, Any, Any]:
    """Streams, times and lengths of a series, rows of a stream together. They come in this order, unless the caller has
    sorted them."""
    streams, ts, lengths = (
        frame["stream"].to_numpy(),
        frame["ts"].to_numpy(dtype="float64"),
        frame["queue_length"].to_numpy(),
    )
    if (streams[1:] >= streams[:-1]).all():
        return streams, ts, lengths
    order = streams.argsort(kind="stable")
    return streams[order], ts[order], lengths[order]


def _time_full(frame: Any, limit: int) -> list[tuple[Any, float]]:
    """Streams that were full, and for how long."""
    import numpy

    streams, ts, lengths = _by_stream(frame)
    ends = [*(numpy.flatnonzero(streams[1:] != streams[:-1]) + 1).tolist(), len(streams)]
    is_full = lengths >= limit
    found = []
    for first, past in zip([0, *ends], ends):
        full, times = is_full[first:past], ts[first:past]
        if full.any():
            turns = (
                numpy.flatnonzero(full[1:] != full[:-1]) + 1
            )  # where it fills and where it is no longer full, by turns
            bounds = times[[*([0] if full[0] else []), *turns, *([len(times) - 1] if full[-1] else [])]]
            found.append((streams[first], float((bounds[1::2] - bounds[::2]).sum())))
    return found


def blocked(t: Trace, series: dict[int, Any], limit: int) -> Any:
    """Time at the limit and above, per stream; no row where no queue was full. HTA keeps one stream a rank, the
    last."""
    import numpy

    rows = []
    for rank, frame in series.items():
        of_rank = [(rank, *found) for found in _time_full(frame, limit)]
        rows += of_rank[-1:] if t.hta_compat else of_rank
    if not rows:
        return _frames.empty(BLOCKED)
    span = {rank: float(t.get_trace_duration(rank)) for rank, _, _ in rows}
    return _frames.frame(
        {
            "rank": [r for r, _, _ in rows],
            "stream": numpy.array([s for _, s, _ in rows]),
            "duration_at_max_queue_length": numpy.array([d for _, _, d in rows]),
            "relative_duration_at_max_queue_length": numpy.array(
                [d / span[r] if span[r] else numpy.nan for r, _, d in rows]
            ),
        }
    )


def bandwidth_series(t: Trace, ranks: list[int]) -> dict[int, Any]:
    made = {}
    for rank in ranks:
        table = t.ask("copy_bandwidth", rank, by="series", columns=["kind", "ts_ns", "gbps", "track"])
        if table is None or len(table) == 0:
            continue
        ts, tracks = _frames.taken(table, "ts_ns"), _frames.taken(table, "track")
        moments = t.moments(rank, ts)
        made[rank] = _frames.frame(
            {
                "ts": moments.astype("float64", copy=False),
                "pid": t.places(rank, tracks)["pid"],
                "name": _frames.texts(table, "kind"),
                "memory_bw_gbps": _frames.reals(table, "gbps"),
            }
        )
    return made


def bandwidth_summary(t: Trace, ranks: list[int]) -> Any | None:
    rows, any_copy = [], False
    for rank in ranks:
        table = t.ask("copy_bandwidth", rank, by="summary")
        if table is None:
            continue
        any_copy |= len(table) > 0
        columns = [
            _frames.reals(table, c)
            for c in ("points", "mean_gbps", "std_gbps", "min_gbps", *(f"{q}_gbps" for q in QUARTILES), "max_gbps")
        ]
        rows += [
            (rank, kind, *values) for kind, *values in zip(_frames.texts(table, "kind"), *columns) if values[0] > 0
        ]
    if not rows and any_copy:
        one: Any = _summary([(0, "", *[0.0] * len(_frames.DESCRIBED))], ("rank", "name"), "memory_bw_gbps")
        return one.iloc[:0]
    return _summary(rows, ("rank", "name"), "memory_bw_gbps")


# ---- counters in the trace itself --------------------------------------------------------------------------

AT_ONCE = 1 << 16  # rows that are Python objects at one time


def _counters(
    frame: Any, name: Callable[[Any], Any], idents: bool, label: str, value: str, zero_ns: int
) -> Iterator[str]:
    """The JSON text of a counter event a row. name: the names of some of the rows; idents: each stream is a counter of
    its own."""
    import numpy

    for first in range(0, len(frame), AT_ONCE):
        part = frame.iloc[first : first + AT_ONCE]
        times = (part["ts"].to_numpy(dtype="float64") * 1000).round().astype(numpy.int64) + zero_ns
        ident = [f',"id":{i}' for i in part["stream"].tolist()] if idents else [""] * len(part)
        for of, pid, i, ts, number in zip(
            name(part), part["pid"].tolist(), ident, times.tolist(), part[value].tolist()
        ):
            yield f'{{"ph":"C","name":{json.dumps(of)},"pid":{json.dumps(pid)}{i},"ts":{us(ts)},"args":{{"{label}":{number}}}}}'


def queue_counters(frame: Any, zero_ns: int) -> Iterator[str]:
    return _counters(frame, lambda part: ["Queue Length"] * len(part), True, "Queue Length", "queue_length", zero_ns)


def bandwidth_counters(frame: Any, zero_ns: int) -> Iterator[str]:
    return _counters(frame, lambda part: part["name"].tolist(), False, "Memcpy BW", "memory_bw_gbps", zero_ns)
