"""Looking things up in a frame: its iterations, an occurrence of an operator, events by patterns of names."""

from __future__ import annotations

import re
from typing import Any

from .trace_symbol_table import TraceSymbolTable


def get_iterations(df: Any) -> list[int]:
    """The iterations of the rows, rising, without -1."""
    if "iteration" not in df.columns:
        raise TypeError("the frame has no column iteration")
    return sorted(int(number) for number in df["iteration"].dropna().unique() if number != -1)


def name_columns(df: Any) -> tuple[str, str]:
    """The columns that hold names and categories as text, ("", "") when the frame has none."""
    for name, cat in (("s_name", "s_cat"), ("name", "cat")):
        if (
            name in df.columns
            and cat in df.columns
            and df[name].dtype.kind not in "iu"
            and df[cat].dtype.kind not in "iu"
        ):
            return name, cat
    return "", ""


def find_op_occurrence(df: Any, op_name: str, position: int, name_column: str = "s_name") -> tuple[bool, Any]:
    """(True, the row) of one occurrence in order of time, -1 = the last; (False, an empty Series) when there are not so
    many."""
    import pandas

    if len(df) and "ts" in df.columns and name_column in df.columns:
        found = df.loc[df[name_column] == op_name].sort_values("ts", kind="stable")
        if -len(found) <= position < len(found):
            return True, found.iloc[position]
    return False, pandas.Series(dtype=object)


def find_events_by_name_patterns_using_symbol_table(
    df: Any, list_name_patterns: list[str], symbol_table: TraceSymbolTable
) -> Any:
    """The index of each row with a name (a number) that begins with a match of one of the patterns."""
    return df.loc[df["name"].isin(symbol_table.find_matches(list_name_patterns)), "index"]


def find_events_by_name_patterns_using_decoded_names(
    df: Any, list_name_patterns: list[str], name_column: str = "s_name"
) -> Any:
    """The same for names as text."""
    patterns = [re.compile(pattern) for pattern in list_name_patterns]
    matching = {name for name in df[name_column].unique() if any(pattern.match(name) for pattern in patterns)}
    return df.loc[df[name_column].isin(matching), "index"]
