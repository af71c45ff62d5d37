"""Timelines of device work: a lane a rank and stream."""

from __future__ import annotations

from typing import Any

from .. import _frames, _plots
from ..common.trace import Trace
from ..common.trace_symbol_table import TraceSymbolTable
from ..utils.utils import shorten_name

_START, _END = "calibrated_start_global", "calibrated_end_global"


def plot_timeline(title: str, events: Any, ranks: list[int] | None = None) -> None:
    """Draws what prepare_timeline_gpu_events made, these ranks of it."""
    shown = events if ranks is None else events.loc[events["rank"].isin(ranks)]
    hover = [c for c in ("rank", "stream", "iteration", "s_cat", "s_name", "dur") if c in shown.columns]
    _plots.timeline(shown, (_START, _END, "task", "label"), title, 60, hover)


def prepare_timeline_gpu_events(
    df: Any,
    symbol_table: TraceSymbolTable,
    ranks: list[int] | None = None,
    iterations: list[int] | None = None,
    streams: list[int] | None = None,
    duration_threshold: int = 1000,
) -> Any:
    """The rows of these ranks, iterations and streams (None: of all but -1) with names as text, start and end as
    moments, the end at least duration_threshold (µs) after the start, label and lane."""
    import pandas

    missing = [c for c in ("iteration", "name", "cat", "rank", "stream", "ts", "dur") if c not in df.columns]
    if missing:
        raise ValueError(f"a timeline of device work needs the columns {', '.join(missing)}, too")
    kept = pandas.Series(True, index=df.index)
    for column, chosen in (("rank", ranks), ("iteration", iterations), ("stream", streams)):
        kept &= (df[column] != -1) & df[column].notna() if chosen is None else df[column].isin(chosen)
    events = df.loc[kept].copy()
    symbol_table.decode_df(events)
    events["s_name"] = _frames.renamed(events["s_name"], lambda name: shorten_name(name)[:45])
    events[_START] = pandas.to_datetime(events["ts"], unit="us")
    events[_END] = pandas.to_datetime(events["ts"] + events["dur"].clip(lower=duration_threshold), unit="us")
    events["label"] = events["s_name"]
    events["task"] = "rank " + events["rank"].astype(str) + " stream " + events["stream"].astype(str)
    return events.sort_values(by=["rank", "stream", "ts"], kind="stable")


def plot_timeline_gpu_kernels(
    title: str,
    df: Any,
    symbol_table: TraceSymbolTable,
    ranks: list[int] | None = None,
    iterations: list[int] | None = None,
    streams: list[int] | None = None,
    duration_threshold: int = 1000,
) -> None:
    plot_timeline(title, prepare_timeline_gpu_events(df, symbol_table, ranks, iterations, streams, duration_threshold))


def plot_timeline_gpu_kernels_from_trace(
    title: str,
    trace_data: Trace,
    ranks: list[int] | None = None,
    iterations: list[int] | None = None,
    streams: list[int] | None = None,
    duration_threshold: int = 1000,
) -> None:
    import pandas

    chosen = [rank for rank in trace_data.get_ranks() if ranks is None or rank in ranks]
    rows = pandas.concat([trace_data.get_trace(rank).assign(rank=rank) for rank in chosen], ignore_index=True)
    plot_timeline_gpu_kernels(title, rows, trace_data.symbol_table, chosen, iterations, streams, duration_threshold)
