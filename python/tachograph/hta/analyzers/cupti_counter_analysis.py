"""Hardware counters of each kernel, beside the operators that launched it."""

from __future__ import annotations

from typing import Any

from .. import _frames
from ..common.trace import Trace

_OPS = ("ffma", "fmul", "fadd", "hfma", "hmul", "hadd", "dfma", "dmul", "dadd")
# Floating-point operations of an instruction, by the counter of executed instructions.
CUDA_SASS_INSTRUCTION_COUNTER_FLOPS = {
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": 2 if op.endswith("fma") else 1 for op in _OPS
}


def counters(t: Trace, ranks: list[int]) -> list[Any]:
    """A frame for each rank that has counters."""
    frames = [_of_rank(t, rank) for rank in ranks]
    return [frame for frame in frames if frame is not None]


def _of_rank(t: Trace, rank: int) -> Any | None:
    import numpy
    import pandas

    ranges = t.engine.ask("cupti", rank, limit="all")
    values = t.engine.ask("cupti", rank, by="counter", limit="all")
    if ranges is None or values is None or len(ranges) == 0:
        return None
    row_of = pandas.Series(numpy.arange(len(t.slices(rank))), index=t.slices(rank))
    events = _frames.integers(ranges, "event")
    known = numpy.isin(events, row_of.index)
    frame = t.some_rows(rank, row_of.loc[events[known]].to_numpy()).reset_index(drop=True)
    t.symbol_table.decode_df(frame, create_new_columns=False)
    place = pandas.Series(numpy.arange(len(events)), index=events)
    of_value, counter = place.loc[_frames.integers(values, "event")].to_numpy(), _frames.texts(values, "counter")
    for name in dict.fromkeys(counter):
        column = numpy.zeros(len(events))
        column[of_value[counter == name]] = _frames.reals(values, "value")[counter == name]
        whole = column.astype(numpy.int64)
        frame[name] = (_frames.small(whole) if (whole == column).all() else column)[known]
    launches = _frames.integers(ranges, "launch")[known]
    frame["index_runtime"] = t.indices(rank)[row_of.reindex(launches, fill_value=0).to_numpy()].astype(numpy.int64)
    stacks = [stack.split(">") if stack else [] for stack in _frames.texts(ranges, "op_stack")[known]]
    frame["op_stack"] = pandas.Series(stacks, dtype=object)
    for name, end in (("top_level_op", 0), ("bottom_level_op", -1)):
        frame[name] = pandas.Series([stack[end] if stack else "" for stack in stacks], dtype=object)
    return frame
