"""Timelines: events as bars on lanes by trace, rank, stream, thread and depth, and annotations of the host laid beside
their kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .. import _frames, _plots
from .trace_df import find_events_by_name_patterns_using_decoded_names, find_events_by_name_patterns_using_symbol_table
from .trace_filter import Filter
from .trace_symbol_table import TraceSymbolTable

CPUStreamID, AnnotationStreamID = -1, -2
NEEDED = ("name", "ts", "dur")
HOVER = ("name", "cat", "index", "ts", "dur", "rank", "stream", "depth", "tid", "iteration", "index_correlation")
LANES = ("trace", "rank", "stream", "tid", "depth")


class EventType(Enum):
    GPUEvents = 0
    CPUEvents = 1
    AllEvents = 2


class PlotFormat(Enum):
    HTML = "html"  # return the page as text
    Inline = "inline"  # show it
    File = "file"  # write it and show nothing


@dataclass
class TimelinePlotSetting:
    """auto_detect: the lanes follow from what the frame holds. Bars shorter than short_events_display_duration (µs) are
    drawn that long where amplify_short_events is set."""

    auto_detect: bool = True
    event_type: EventType = EventType.GPUEvents
    multi_ranks: bool = False
    multi_traces: bool = False
    multi_streams: bool = True
    x_start_column: str = "calibrated_start_global"
    x_end_column: str = "calibrated_end_global"
    task_column: str = "task"
    color_column: str = "name"
    task_height: int = 30
    amplify_short_events: bool = True
    short_events_display_duration: int = 1000
    use_global_time: bool = False
    plot_format: PlotFormat = PlotFormat.Inline
    compress_threads: bool = True


DefaultTimelinePlotSetting = TimelinePlotSetting()


def auto_detect_setting(events: Any, setting: TimelinePlotSetting) -> None:
    if not setting.auto_detect:
        return
    for attribute, column in (("multi_ranks", "rank"), ("multi_traces", "trace"), ("multi_streams", "stream")):
        setattr(setting, attribute, column in events.columns and events[column].nunique() > 1)
    streams = set(events["stream"].unique()) if "stream" in events.columns else {CPUStreamID}
    setting.event_type = (
        EventType.GPUEvents
        if CPUStreamID not in streams
        else EventType.AllEvents
        if len(streams) > 1
        else EventType.CPUEvents
    )


def _shorter(name: str, most: int = 45) -> str:
    """Without return type, parameters and the namespaces that say nothing, at most 45 letters."""
    if not re.match(r"##.+##$|<.+>$|Mem\w+(\s+\w+)?\s+\(.+\)$", name):
        name = name.replace("(anonymous namespace)::", "anon::").replace(
            "autograd::engine::evaluate_function: ", "autograd::"
        )
        name = re.sub(r"^void\s+", "", name)
        name = name[: name.index("(")] if "(" in name[1:] else name
    return name if len(name) < most else f"{name[: most - 3]}..."


def _numbered(word: str, values: Any) -> Any:
    return word + " " + values.astype(str).str.zfill(3)


def _tasks(events: Any, setting: TimelinePlotSetting) -> Any:
    """The lane of each event."""
    import numpy
    import pandas

    parts = [
        _numbered(column, events[column])
        for column, wanted in (("trace", setting.multi_traces), ("rank", setting.multi_ranks))
        if wanted
    ]
    if setting.event_type is EventType.GPUEvents:
        parts += [_numbered("gpu stream", events["stream"])] if setting.multi_streams else []
    elif setting.event_type is EventType.CPUEvents:
        parts += [_numbered("tid", events["tid"])] if "tid" in events.columns and not setting.compress_threads else []
        parts += [_numbered("cpu level", events["depth"])] if "depth" in events.columns else []
    else:
        host = (
            _numbered("cpu level", events["depth"])
            if "depth" in events.columns
            else pandas.Series("cpu events", index=events.index)
        )
        stream = events["stream"].to_numpy()
        device = numpy.where(stream == AnnotationStreamID, "gpu annotate", _numbered("gpu stream", events["stream"]))
        parts.append(pandas.Series(numpy.where(stream == CPUStreamID, host, device), index=events.index))
    if not parts:
        return pandas.Series("events", index=events.index)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + " " + part
    return joined


def _order(events: Any, setting: TimelinePlotSetting) -> list[str]:
    wanted = [c for c, is_set in (("trace", setting.multi_traces), ("rank", setting.multi_ranks)) if is_set]
    wanted += ["tid", "depth"] if setting.event_type is EventType.CPUEvents else ["stream"]
    return [c for c in (*wanted, "ts") if c in events.columns]


def prepare_timeline_events(
    df: Any,
    setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
    symbol_table: TraceSymbolTable | None = None,
    hover_columns: list[str] | None = None,
) -> Any:
    """The events as a timeline draws them: from the first of them, names made short, with start, end and lane. Empty
    when there is nothing to draw; a frame without a column that is needed is a ValueError."""
    import pandas

    if not len(df):
        return pandas.DataFrame()
    missing = [c for c in NEEDED if c not in df.columns]
    if missing:
        raise ValueError(f"a timeline needs the columns {', '.join(NEEDED)}; the frame lacks {', '.join(missing)}")
    events = df[[c for c in df.columns if c in {*NEEDED, *LANES, *(hover_columns or HOVER)}]].copy()
    auto_detect_setting(df, setting)
    for column in ("name", "cat"):
        if symbol_table and column in events.columns and events[column].dtype.kind in "iu":
            symbol_table.decode_df(events, create_new_columns=False)
    if symbol_table:
        events["name"] = _frames.renamed(events["name"], _shorter)
    begin = events["ts"].min()
    events["ts"] = events["ts"] - begin
    shown = (
        events["dur"].clip(lower=setting.short_events_display_duration)
        if setting.amplify_short_events
        else events["dur"]
    )
    start, end = events["ts"], events["ts"] + shown
    if setting.use_global_time:
        start, end = (pandas.to_datetime(moment + begin, unit="us") for moment in (start, end))
    events[setting.x_start_column], events[setting.x_end_column] = start, end
    events[setting.task_column] = _tasks(events, setting)
    return events.sort_values(by=_order(events, setting), kind="stable")


def plot_events_timeline(
    title: str,
    events: Any,
    setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
    hover_columns: list[str] | None = None,
    output_image_path: str | None = None,
) -> str | None:
    """Draws what prepare_timeline_events made. The page as text where the setting's plot_format is HTML, else None."""
    missing = [
        c
        for c in (setting.x_start_column, setting.x_end_column, setting.task_column, setting.color_column)
        if c not in events.columns
    ]
    if missing:
        raise ValueError(f"the events have no {', '.join(missing)}: prepare_timeline_events() makes them")
    hover = [c for c in hover_columns or HOVER if c in events.columns]
    columns = (setting.x_start_column, setting.x_end_column, setting.task_column, setting.color_column)
    return _plots.timeline(
        events, columns, title, setting.task_height, hover, output_image_path, setting.plot_format.value
    )


def align_module_with_kernels(
    events_df: Any,
    module_list: list[str],
    sym_table: TraceSymbolTable | None = None,
    include_original_cpu_events: bool = False,
) -> Any:
    """The device's events (and the host's, when asked for), with a copy of each host event that matches by name one of
    module_list and that launched work: it stands on the stream -2, from the first of its kernels to the end of the
    last. CallGraph adds the columns it needs."""
    import pandas

    needed = ("index", "stream", "ts", "dur", "name", "first_kernel_start", "kernel_span", "num_kernels")
    missing = [c for c in needed if c not in events_df.columns]
    if missing:
        raise ValueError(f"the frame lacks {', '.join(missing)}: make a CallGraph of the trace first")
    host = events_df.loc[(events_df["stream"] == CPUStreamID) & (events_df["num_kernels"] >= 1)]
    if events_df["name"].dtype.kind in "iu" and sym_table is not None:
        chosen = find_events_by_name_patterns_using_symbol_table(host, module_list, sym_table)
    else:
        column = next(
            (c for c in ("name", "s_name") if c in events_df.columns and events_df[c].dtype.kind not in "iu"), None
        )
        if column is None:
            raise ValueError(
                "names are numbers here: pass the symbol table, or call decode_symbol_ids() of the trace first"
            )
        chosen = find_events_by_name_patterns_using_decoded_names(host, module_list, column)
    copies = host.loc[host["index"].isin(chosen)].assign(
        ts=host["first_kernel_start"], dur=host["kernel_span"], stream=AnnotationStreamID
    )
    kept = events_df["stream"] != AnnotationStreamID if include_original_cpu_events else events_df["stream"] > 0
    return pandas.concat([events_df.loc[kept], copies], ignore_index=True)


def get_fig_title_from_fig_name(fig_name: str, sep: str = r"\s+|_+|-+") -> str:
    return " ".join(word.capitalize() for word in re.split(sep, fig_name or "untitled_figure") if word)


def get_fig_name_from_fig_title(title: str) -> str:
    return "_".join((title or "Untitled Figure").lower().split())


class Timeline:
    """Events made ready for drawing, those that pass filter_func when it is given."""

    def __init__(
        self,
        timeline_events: Any,
        symbol_table: TraceSymbolTable,
        filter_func: Filter | None = None,
        setting: TimelinePlotSetting = DefaultTimelinePlotSetting,
        hover_columns: list[str] | None = None,
    ) -> None:
        self.timeline_events, self.symbol_table, self.setting = timeline_events, symbol_table, setting
        self.hover_columns = hover_columns or list(HOVER)
        self.prepare(filter_func)

    @staticmethod
    def is_timeline_events(df: Any, setting: TimelinePlotSetting) -> bool:
        return {setting.task_column, setting.x_start_column, setting.x_end_column} <= set(df.columns)

    def prepare(self, filter_func: Filter | None = None) -> None:
        if self.is_timeline_events(self.timeline_events, self.setting):
            return
        events = filter_func(self.timeline_events, self.symbol_table) if filter_func else self.timeline_events
        self.timeline_events = prepare_timeline_events(events, self.setting, self.symbol_table, self.hover_columns)

    def plot(self, title: str, save_path: str | None = None) -> None:
        plot_events_timeline(title, self.timeline_events, self.setting, self.hover_columns, save_path)
