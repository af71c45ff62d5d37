"""Frames about launches: calls beside what they launched, operators beside their kernels, sequences of kernels below an
operator."""

from __future__ import annotations

from typing import Any

from .. import _frames
from .._overlay import write_marked
from ..common.trace import Trace
from ..utils.utils import shorten_name

LAUNCH = [
    ("correlation", "int64"),
    ("cpu_duration", "float64"),
    ("gpu_duration", "float64"),
    ("launch_delay", "float64"),
]


def launches(t: Trace, ranks: list[int], include_memory_events: bool) -> dict[int, Any]:
    made = {}
    for rank in ranks:
        table = t.ask(
            "launch_stats",
            rank,
            by="event",
            memory=include_memory_events,
            columns=["correlation", "call_ns", "device_ns", "delay_ns"],
        )
        made[rank] = (
            _frames.empty(LAUNCH)
            if table is None
            else _frames.frame(
                {
                    "correlation": _frames.narrow(table, "correlation"),
                    "cpu_duration": _frames.taken_micros(table, "call_ns"),
                    "gpu_duration": _frames.taken_micros(table, "device_ns"),
                    "launch_delay": _frames.taken_micros(table, "delay_ns"),
                }
            )
        )
    return made


OP_KERNELS = [
    ("aten_op_name", "object"),
    ("kernel_sequence", "object"),
    ("occurrence_count", "int64"),
    ("avg_aten_op_launch_delay", "float64"),
    ("avg_runtime_delay", "float64"),
]
PATTERNS = [
    ("pattern", "object"),
    ("count", "int64"),
    ("GPU kernel duration (us)", "float64"),
    ("CPU op duration (us)", "float64"),
]


def op_kernels(t: Trace, ranks: list[int], sort_by: list[str]) -> dict[int, Any]:
    """HTA's results of one rank contain those of the ranks asked for before it."""
    made: dict[int, Any] = {}
    before: dict[tuple[str, str], tuple[int, float, float]] = {}
    for rank in ranks:
        found = dict(before) if t.hta_compat else {}
        table = t.ask("op_kernels", rank)
        columns = (
            []
            if table is None
            else [
                _frames.texts(table, "op"),
                _frames.texts(table, "sequence"),
                _frames.integers(table, "calls").tolist(),
                _frames.micros(table, "launch_delay_ns"),
                _frames.micros(table, "runtime_delay_ns"),
            ]
        )
        for op, sequence, calls, launch, runtime in zip(*columns):
            old = found.get((op, sequence), (0, 0.0, 0.0))
            found[op, sequence] = (old[0] + calls, old[1] + calls * launch, old[2] + calls * runtime)
        before = found
        made[rank] = _op_frame(dict(sorted(found.items()))).sort_values(by=sort_by, ascending=False, kind="stable")
    return made


def _op_frame(found: dict[tuple[str, str], tuple[int, float, float]]) -> Any:
    import numpy

    if not found:
        return _frames.empty(OP_KERNELS)
    calls, launch, runtime = (numpy.array(column) for column in zip(*found.values()))
    names = [numpy.array(column, dtype=object) for column in zip(*found)]
    return _frames.frame(
        {
            "aten_op_name": names[0],
            "kernel_sequence": names[1],
            "occurrence_count": calls,
            "avg_aten_op_launch_delay": (launch / calls).round(3),
            "avg_runtime_delay": (runtime / calls).round(3),
        }
    )


def sequences(t: Trace, rank: int, operator_name: str, min_pattern_len: int) -> Any:
    table = t.ask("sequences", rank, op=operator_name, min_length=min_pattern_len)
    if table is None or len(table) == 0:
        return _frames.empty(PATTERNS)
    frame = _frames.frame(
        {
            "pattern": _frames.texts(table, "pattern"),
            "count": _frames.integers(table, "count"),
            "GPU kernel duration (us)": _frames.micros(table, "kernel_ns"),
            "CPU op duration (us)": _frames.micros(table, "op_ns"),
        }
    )
    return frame.sort_values(by=["count", "pattern"], ascending=[False, True], kind="stable", ignore_index=True)


def overlay(
    t: Trace, rank: int, path: str, operator_name: str, min_pattern_len: int, top_k: int, without_other_args: bool
) -> str:
    """The trace with the operators and kernels of the most frequent patterns marked."""
    table = t.ask("sequences", rank, by="event", op=operator_name, min_length=min_pattern_len, top_k=top_k)
    indices = t.indices_of(rank, _frames.integers(table, "event"))
    marks: dict[int, dict[str, Any]] = {}
    for index, place in zip(indices.tolist(), _frames.integers(table, "place").tolist()):
        marks.setdefault(index, {"Patterns": []})["Patterns"].append(place)
    return write_marked(t, rank, path, marks, without_other_args)


def with_annotations(t: Trace, rank: int, expand_names: bool, shorten_names: bool) -> Any:
    """The rows of device work, each with the user annotation it belongs to; None when no device track has annotations.
    HTA has no rows where there are annotations but no work."""
    import numpy

    table = t.ask("kernel_annotations", rank, columns=["annotation", "event"])
    if not _has_device_annotations(t, rank) if t.hta_compat else table is None:
        return None
    events = numpy.zeros(0, dtype="int64") if table is None else _frames.integers(table, "event")
    kernels, order = _rows_of(t, rank, events)
    codes, annotations = (events, []) if table is None else _frames.codes(table, "annotation")
    codes = codes[order]
    numbers = numpy.where([text is None for text in annotations], -1, t.symbol_table.numbers_of(annotations))
    kernels["user_annotation"] = numbers[codes]
    if expand_names:
        t.symbol_table.decode_df(kernels, rename=shorten_name if shorten_names else None)
        kernels["s_user_annotation"] = _frames.labelled(codes, [text or "" for text in annotations])
    return kernels


def _has_device_annotations(t: Trace, rank: int) -> bool:
    named = t.ask("annotations", rank, columns=["side"])
    return named is not None and "gpu" in set(_frames.texts(named, "side"))


def _rows_of(t: Trace, rank: int, events: Any) -> tuple[Any, Any]:
    """The rows of the frame that these events of the device are, in the order of the file, and which event each is. By
    our rules only they need be made."""
    import numpy

    found = None if t.hta_compat else t.device_rows(rank, events)
    if found is not None and len(found[1]) == len(events):
        return found
    order = numpy.argsort(t.indices_of(rank, events), kind="stable")
    return t.some_rows(rank, _places(t, rank, events)[order]).reset_index(drop=True), order


def _places(t: Trace, rank: int, events: Any) -> Any:
    """Which row of the frame each event of an answer is."""
    import numpy

    slices = t.slices(rank)
    order = numpy.argsort(slices, kind="stable")
    places = order.take(numpy.searchsorted(slices, events, sorter=order), mode="clip")
    if not (slices[places] == events).all():
        raise KeyError("an answer names an event that the frame has no row for")
    return places
