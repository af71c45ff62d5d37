"""Execution traces beside HTA's frames: load, correlate, add columns."""

from __future__ import annotations

import logging
from typing import Any

from ... import _execution_trace
from ..._execution_trace import CATEGORIES, ExecutionTrace

__all__ = [
    "ExecutionTrace",
    "EXECUTION_TRACE_SUPPORTED_EVENTS",
    "load_execution_trace",
    "correlate_execution_trace",
    "add_et_column",
]
EXECUTION_TRACE_SUPPORTED_EVENTS = list(CATEGORIES)
_COLUMNS = {
    "op_schema": "op_schema",
    "input_shapes": "input_shapes",
    "input_types": "input_types",
    "output_shapes": "output_shapes",
    "output_types": "output_types",
    "et_node_name": "name",
}
_logger = logging.getLogger("tachograph.hta")


def load_execution_trace(et_file: str) -> ExecutionTrace:
    return _execution_trace.load_execution_trace(et_file)


def correlate_execution_trace(trace: Any, rank: int, et: ExecutionTrace) -> None:
    """Add the column et_node to the frame of a rank: the node that an operator or annotation is, NaN elsewhere."""
    frame = trace.get_trace(rank)
    if not et.overlaps(frame["external_id"].min(), frame["external_id"].max()):
        _logger.error("the trace and the execution trace were not recorded together: nothing is correlated")
        return
    numbers = [trace.symbol_table.get_sym_id_map().get(category) for category in CATEGORIES]
    wanted = frame["cat"].isin(numbers)
    frame.loc[wanted, "et_node"] = (
        frame.loc[wanted, "external_id"].map(lambda number: et.node_of(int(number))).astype(float)
    )


def add_et_column(trace_df: Any, et: ExecutionTrace, column: str) -> None:
    """Add what the nodes say: op_schema, input_shapes, input_types, output_shapes, output_types or et_node_name."""
    if "et_node" not in trace_df:
        _logger.error("run correlate_execution_trace() first")
        return
    if column not in _COLUMNS:
        _logger.error("unknown column %s: there are %s", column, ", ".join(_COLUMNS))
        return
    import pandas

    values = [
        float("nan") if node != node else getattr(et.nodes[int(node)], _COLUMNS[column]) for node in trace_df["et_node"]
    ]
    trace_df[column] = pandas.Series(values, index=trace_df.index, dtype=object)
