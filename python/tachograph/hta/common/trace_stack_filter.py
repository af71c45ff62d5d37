"""Filters by an operator: what runs under, after or before one of its occurrences, on the host and, when asked for, on
the device."""

from __future__ import annotations

from enum import Enum
from typing import Any

from .trace_df import find_op_occurrence, name_columns
from .trace_filter import Filter, FirstIterationFilter
from .trace_symbol_table import TraceSymbolTable


class OperatorFilterMethod(Enum):
    Under = 0
    After = 1
    Before = 2
    Ancestors = 3
    Stack = 4


def get_matching_kernels(df_ops: Any, df_both: Any, cat_column: str) -> Any:
    """The rows of df_both that runtime calls among df_ops launched."""
    calls = df_ops.loc[df_ops[cat_column] == "cuda_runtime", "index"]
    return df_both.loc[df_both["index_correlation"].isin(calls)]


class OperatorFilter(Filter):
    """The rows on the same stream as the position-th occurrence (0 = the first, -1 = the last) of op_name that lie
    under, after or before it. Names are looked for as text: decode the frame first."""

    def __init__(
        self,
        op_name: str,
        position: int,
        method: OperatorFilterMethod,
        include_gpu_kernels: bool = False,
        name_column: str | None = None,
    ) -> None:
        self.op_name, self.position, self.method = op_name, position, method
        self.include_gpu_kernels, self.name_column = include_gpu_kernels, name_column or ""

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        import pandas

        name, cat = (
            (self.name_column, self.name_column.replace("name", "cat")) if self.name_column else name_columns(df)
        )
        if name not in df.columns or cat not in df.columns:
            raise ValueError(
                "a filter by operator needs names and categories as text: call decode_symbol_ids() of the trace first"
            )
        found, op = find_op_occurrence(df, self.op_name, self.position, name)
        if not found:
            return df.iloc[:0]
        kept = df.loc[self._fits(df, op) & (df["stream"] == op["stream"])]
        return pandas.concat([kept, get_matching_kernels(kept, df, cat)]) if self.include_gpu_kernels else kept

    def _fits(self, df: Any, op: Any) -> Any:
        end, op_end = df["ts"] + df["dur"], op["ts"] + op["dur"]
        if self.method is OperatorFilterMethod.Under:
            return (df["ts"] >= op["ts"]) & (end <= op_end)
        if self.method is OperatorFilterMethod.After:
            return df["ts"] >= op_end
        if self.method is OperatorFilterMethod.Before:
            return end <= op["ts"]
        if self.method is OperatorFilterMethod.Ancestors:
            return (df["ts"] <= op["ts"]) & (end >= op_end)
        return ((df["ts"] <= op["ts"]) & (end >= op_end)) | ((df["ts"] >= op["ts"]) & (end <= op_end))


class AfterOperatorFilter(OperatorFilter):
    """What begins at the end of the occurrence or later."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.After, include_gpu_kernels, name_column)


class BeforeOperatorFilter(OperatorFilter):
    """What has ended when the occurrence begins."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.Before, include_gpu_kernels, name_column)


class UnderOperatorFilter(OperatorFilter):
    """What begins and ends inside the occurrence, itself among it."""

    def __init__(
        self, op_name: str, position: int, include_gpu_kernels: bool = False, name_column: str | None = None
    ) -> None:
        super().__init__(op_name, position, OperatorFilterMethod.Under, include_gpu_kernels, name_column)


class CombinedOperatorFilter(Filter):
    """In the first iteration, under the first root_op_name, after the last preceding_op_name and before the first
    following_op_name; a name that is not there selects nothing away. stack_depths: of the host only rows at these
    depths."""

    def __init__(
        self,
        root_op_name: str,
        preceding_op_name: str,
        following_op_name: str,
        include_gpu_kernels: bool = False,
        stack_depths: list[int] | None = None,
    ) -> None:
        self.root_op_name, self.preceding_op_name, self.following_op_name = (
            root_op_name,
            preceding_op_name,
            following_op_name,
        )
        self.include_gpu_kernels, self.stack_depths = include_gpu_kernels, stack_depths or []

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        import pandas

        name, cat = name_columns(df)
        if not name:
            raise ValueError(
                "a filter by operator needs names and categories as text: call decode_symbol_ids() of the trace first"
            )
        kept = FirstIterationFilter()(df)
        for op, position, of in (
            (self.root_op_name, 0, UnderOperatorFilter),
            (self.preceding_op_name, -1, AfterOperatorFilter),
            (self.following_op_name, 0, BeforeOperatorFilter),
        ):
            if find_op_occurrence(kept, op, position, name)[0]:
                kept = of(op, position, name_column=name)(kept)
        if len(kept) and self.include_gpu_kernels:
            kept = pandas.concat([get_matching_kernels(kept, df, cat), kept])
        if self.stack_depths and "depth" in kept.columns:
            kept = kept.loc[(kept["stream"] > 0) | kept["depth"].isin(self.stack_depths)]
        return kept
