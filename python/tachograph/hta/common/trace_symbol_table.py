"""Names and categories as numbers: the symbol table that all ranks of a Trace share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any


class TraceSymbolTable:
    """sym_table: texts by number; sym_index: numbers by text. fill is called before the first look: names come with the
    frames."""

    def __init__(self, fill: Callable[[], None] | None = None) -> None:
        self._table: list[str] = []
        self._index: dict[str, int] = {}
        self._fill = fill

    def _complete(self) -> None:
        if self._fill:
            fill, self._fill = self._fill, None
            fill()

    @property
    def sym_table(self) -> list[str]:
        self._complete()
        return self._table

    @property
    def sym_index(self) -> dict[str, int]:
        self._complete()
        return self._index

    def add_symbols(self, symbols: Iterable[str]) -> None:
        for symbol in symbols:
            if symbol not in self._index:
                self._index[symbol] = len(self._table)
                self._table.append(symbol)

    def numbers_of(self, symbols: list[str | None]) -> Any:
        """The number of each, added where new."""
        import numpy

        self.add_symbols(s or "" for s in symbols)
        return numpy.array([self._index[s or ""] for s in symbols], dtype=numpy.int64)

    NULL = -1

    @classmethod
    def create_from_df(cls, df: Any) -> TraceSymbolTable:
        """Of the texts in cat and name."""
        made = cls()
        for column in ("cat", "name"):
            made.add_symbols(df[column].unique().tolist())
        return made

    @classmethod
    def create_from_symbol_id_map(cls, symbol_id_map: dict[str, int]) -> TraceSymbolTable:
        made = cls()
        made._table = sorted(symbol_id_map, key=symbol_id_map.__getitem__)
        made._index = dict(symbol_id_map)
        return made

    @classmethod
    def clone(cls, symbol_table: TraceSymbolTable) -> TraceSymbolTable:
        return cls.create_from_symbol_id_map(symbol_table.sym_index)

    @classmethod
    def combine_symbol_tables(cls, tables: Iterable[TraceSymbolTable]) -> TraceSymbolTable:
        made = cls()
        for table in tables:
            made.add_symbols(table.sym_table)
        return made

    def encode_df(self, df: Any) -> None:
        """Numbers for the texts in cat and name."""
        for column in ("cat", "name"):
            self.add_symbols(df[column].unique().tolist())
            df[column] = df[column].map(self.sym_index)

    def get_symbol_ids(self, symbol_pattern: Any) -> dict[str, int]:
        """Of the symbols that a GroupingPattern matches."""
        return {symbol: number for symbol, number in self.sym_index.items() if symbol_pattern.match(symbol)}

    def get_cpu_event_cat_ids(self) -> list[int]:
        return self.find_matches(["cpu_op", "user_annotation", "^(.+)_runtime"])

    def get_gpu_kernel_cat_ids(self) -> list[int]:
        return self.find_matches(["kernel", "gpu_mem.+", "mtia_ccp_events"])

    def get_kernel_launch_ids(self) -> list[int]:
        return self.find_matches(["cuda.*LaunchKernel", "cuLaunchKernel", "runFunction"])

    def get_memory_name_ids(self) -> list[int]:
        return self.find_matches(["Memcpy", "Memset", "dma"])

    def is_empty(self) -> bool:
        return not self.sym_table

    def get_sym_table(self) -> list[str]:
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        return self.sym_index

    get_sym_index = get_sym_id_map

    def get_sym_table_series(self) -> Any:
        import pandas

        return pandas.Series(self.sym_table, dtype=object)

    def get_sym_index_series(self) -> Any:
        import pandas

        return pandas.Series(self.sym_index)

    def find_matched_symbols(self, patterns: list[str]) -> list[str]:
        """Symbols that begin with a match of one of the patterns."""
        kept = [re.compile(p) for p in patterns]
        return [s for s in self.sym_table if any(p.match(s) for p in kept)]

    def find_matches(self, patterns: list[str]) -> list[int]:
        return [self.sym_index[s] for s in self.find_matched_symbols(patterns)]

    def get_symbol_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        return {i: self.sym_table[i] for i in symbol_ids}

    def get_profiler_step_ids(self) -> list[int]:
        return self.find_matches([r"ProfilerStep#\d+"])

    def decode_df(self, df: Any, create_new_columns: bool = True, rename: Callable[[str], str] | None = None) -> None:
        """Texts for the numbers in name and cat: as s_name and s_cat, or in their place. rename: of each name."""
        for column in ("cat", "name"):
            if column in df.columns and df[column].dtype.kind == "i":
                df[f"s_{column}" if create_new_columns else column] = self._decoded(
                    df[column], rename if column == "name" else None
                )

    def add_symbols_to_trace_df(self, trace_df: Any, col: str) -> None:
        trace_df[f"s_{col}"] = self._decoded(trace_df[col])

    def _decoded(self, numbers: Any, rename: Callable[[str], str] | None = None) -> Any:
        import numpy

        from .._frames import labelled

        if len(numbers) and numbers.max() >= len(
            self._table
        ):  # numbers of frames are in the table as soon as there is the frame
            self._complete()
        texts: list[str] = list(self._table)
        if rename:
            used = numpy.zeros(len(texts), dtype=bool)
            used[numbers.to_numpy()] = True
            for i in numpy.flatnonzero(used).tolist():
                texts[i] = rename(texts[i])
        return labelled(numbers.to_numpy(), texts, numbers.index)


def decode_symbol_id_to_symbol_name(df: Any, symbol_table: TraceSymbolTable, use_shorten_name: bool) -> None:
    """s_name and s_cat beside the numbers."""
    from ..utils.utils import shorten_name

    symbol_table.decode_df(df, rename=shorten_name if use_shorten_name else None)
