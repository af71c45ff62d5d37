"""What HTA's utils say about names: the type of a kernel, whether it moves memory or communicates, a name made
short."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from ..common.trace_file import normalize_path

__all__ = [
    "IdleTimeType",
    "KernelType",
    "flatten_column_names",
    "get_kernel_type",
    "get_memory_kernel_type",
    "get_symbol_column_names",
    "is_comm_kernel",
    "is_compute_kernel",
    "is_memory_kernel",
    "merge_kernel_intervals",
    "normalize_path",
    "shorten_name",
]

_COMPUTE_NOT_AT_START = (
    "nccl",
    "hip",
    "hccl",
    "Stream Wait Event",
    "runFunction",
    "job_exe",
    "packet",
    "pe_exe",
    "cpum_exe_subgraph",
    "collective_subgraph_execution",
)
_COMPUTE_NOWHERE = ("Memcpy", "Memset", "dma", "Sync")
_MEMORY_STARTS = ("Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma")


class KernelType(Enum):
    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2
    OTHER = 3


class IdleTimeType(Enum):
    HOST_WAIT = 0
    KERNEL_WAIT = 1
    OTHER = 2


def is_comm_kernel(name: str) -> bool:
    return name.startswith(("nccl", "hip", "hccl")) or "ncclKernel" in name


def is_memory_kernel(name: str) -> bool:
    return name.startswith(_MEMORY_STARTS)


def is_compute_kernel(name: str) -> bool:
    launch = re.match(r"cuda.*LaunchKernel", name)
    return not (name.startswith(_COMPUTE_NOT_AT_START) or any(part in name for part in _COMPUTE_NOWHERE) or launch)


def get_kernel_type(name: str) -> str:
    """HTA's rule: only by the name, the first of these that holds."""
    if is_comm_kernel(name):
        return KernelType.COMMUNICATION.name
    if is_memory_kernel(name):
        return KernelType.MEMORY.name
    return KernelType.COMPUTATION.name if is_compute_kernel(name) else KernelType.OTHER.name


def get_memory_kernel_type(name: str) -> str:
    if name.startswith("Memset"):
        return "Memset"
    return name[:11] if name.startswith("Memcpy") else "Memcpy Unknown"


def _without_brackets(name: str) -> str:
    """What stands outside of balanced <…> and (…)."""
    kept, depth = [], 0
    for part in re.split(r"([<>()])", name):
        if part in ("<", "("):
            depth += 1
        elif part in (">", ")"):
            depth -= 1
        elif depth == 0:
            kept.append(part)
    return "".join(kept)


def shorten_name(name: str) -> str:
    """A kernel's name without template arguments, parameters and return type; others unchanged."""
    if get_kernel_type(name) == KernelType.MEMORY.name or ("<" not in name and "(" not in name):
        return name
    return _without_brackets(name.replace("->", "")).rsplit(" ", 1)[-1]


def flatten_column_names(df: Any) -> None:
    """Columns of several levels as words joined by _."""
    if df.columns.nlevels > 1:
        df.columns = ["_".join(map(str, column)).rstrip("_") for column in df.columns]


def merge_kernel_intervals(kernel_df: Any) -> Any:
    """The times in which any of the rows runs, as ts and end; rows that touch are one."""
    import pandas

    rows = kernel_df.sort_values("ts", kind="stable")
    end = rows["ts"] + rows["dur"]
    group = (rows["ts"] > end.shift().cummax()).cumsum()
    return pandas.DataFrame({"ts": rows["ts"].groupby(group).min(), "end": end.groupby(group).max()}).reset_index(
        drop=True
    )


def get_symbol_column_names(df: Any) -> tuple[str, str]:
    """The columns that hold names and categories as texts, "" where none does."""
    return tuple(
        next((c for c in (column, f"s_{column}") if c in df.columns and df[c].dtype.kind not in "iuf"), "")  # type: ignore[return-value]  # "" as HTA does
        for column in ("name", "cat")
    )
