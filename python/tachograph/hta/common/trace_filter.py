"""Filters over the frames of a Trace: each takes a frame and returns the rows that match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .trace_symbol_table import TraceSymbolTable


def _set(values: int | list[int]) -> list[int]:
    return [values] if isinstance(values, int) else list(values)


class Filter(ABC):
    @abstractmethod
    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        """The rows of df that fit."""


class IterationFilter(Filter):
    def __init__(self, iterations: int | list[int]) -> None:
        self.iterations = _set(iterations)

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[df["iteration"].isin(self.iterations)] if "iteration" in df.columns else df


class IterationIndexFilter(Filter):
    """By position among the frame's iterations, lowest first; every row of a frame without iterations."""

    def __init__(self, iteration_index: int | list[int]) -> None:
        self.iteration_index = _set(iteration_index)

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        known = sorted(i for i in df["iteration"].dropna().unique() if i > -1) if "iteration" in df.columns else []
        if not known:
            return df
        return IterationFilter([known[i] for i in self.iteration_index if i < len(known)])(df)


class FirstIterationFilter(IterationIndexFilter):
    def __init__(self) -> None:
        super().__init__(0)


class RankFilter(Filter):
    """Rows of these ranks; every row of a frame that is one rank's and says nothing of it."""

    def __init__(self, ranks: int | list[int]) -> None:
        self.ranks = _set(ranks)

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[df["rank"].isin(self.ranks)] if "rank" in df.columns else df


class TimeRangeFilter(Filter):
    """Rows that lie in [start, end] entirely."""

    def __init__(self, time_range: tuple[int, int]) -> None:
        self.start, self.end = time_range

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[(df["ts"] >= self.start) & (df["ts"] + df["dur"] <= self.end)]


class NameStringColumnFilter(Filter):
    def __init__(self, name_pattern: str, name_column: str = "s_name") -> None:
        self.name_pattern, self.name_column = name_pattern, name_column

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[df[self.name_column].str.match(self.name_pattern)]


class NameIdColumnFilter(Filter):
    def __init__(self, name_pattern: str) -> None:
        self.name_pattern = name_pattern

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        if symbol_table is None:
            raise ValueError("a filter by name needs the symbol table when the frame has no column of names")
        return df.loc[df["name"].isin(symbol_table.find_matches([self.name_pattern]))]


class NameFilter(Filter):
    """Names that begin with a match of the pattern, by whichever column of names there is."""

    def __init__(
        self, name_pattern: str, symbol_table: TraceSymbolTable | None = None, name_column: str | None = None
    ) -> None:
        self.name_pattern, self.symbol_table, self.name_column = name_pattern, symbol_table, name_column

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        column = self.name_column or ("s_name" if "s_name" in df.columns else "name")
        if df[column].dtype.kind == "i":
            return NameIdColumnFilter(self.name_pattern)(df, symbol_table or self.symbol_table)
        return NameStringColumnFilter(self.name_pattern, column)(df)


class QueryFilter(Filter):
    def __init__(self, query_str: str) -> None:
        self.query_str = query_str

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.query(self.query_str)


class ZeroDurationFilter(Filter):
    """Rows that take time."""

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[df["dur"] > 0]


def _is_gpu(df: Any, symbol_table: TraceSymbolTable | None) -> Any:
    fits = (df["stream"] >= 0) & (df["correlation"] >= 0)
    names = ("Event Sync", "Context Sync")
    if df["name"].dtype.kind != "i":
        return fits | df["name"].isin(names)
    if symbol_table is not None:
        return fits | df["name"].isin([symbol_table.sym_index[n] for n in names if n in symbol_table.sym_index])
    return fits


class GPUKernelFilter(Filter):
    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[_is_gpu(df, symbol_table)]


class CPUOperatorFilter(Filter):
    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return df.loc[~_is_gpu(df, symbol_table)]


class MemCopyEventFilter(Filter):
    """Copies of one kind, such as "Memcpy DtoH"."""

    def __init__(self, memory_copy_type: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.memory_copy_type, self.symbol_table = memory_copy_type, symbol_table

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        return NameFilter(self.memory_copy_type, symbol_table or self.symbol_table)(df)


class CompositeFilter(Filter):
    """All of them, one after the other."""

    def __init__(self, filters: list[Filter]) -> None:
        self.filters = filters

    def __call__(self, df: Any, symbol_table: TraceSymbolTable | None = None) -> Any:
        for each in self.filters:
            df = each(df, symbol_table)
        return df
