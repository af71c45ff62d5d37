"""Kinds of devices and copies, and patterns that group names and categories."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any


class DeviceType(Enum):
    CPU = 1
    GPU = 2
    ALL = 3
    UNKNOWN = 4


class MemcpyType(Enum):
    DTOD = 0
    DTOH = 1
    HTOD = 2
    UNKNOWN = 3


MEMCPY_TYPE_TO_STR = {
    MemcpyType.DTOD: "memcpy_dtod",
    MemcpyType.DTOH: "memcpy_dtoh",
    MemcpyType.HTOD: "memcpy_htod",
    MemcpyType.UNKNOWN: "memcpy_type_unknown",
}


def infer_device_type(df: Any) -> DeviceType:
    """Of the rows of one thread or stream."""
    if "stream" not in df.columns:
        return DeviceType.UNKNOWN
    on_device = bool((df["stream"] > 0).all())
    if {"pid", "tid"} <= set(df.columns):
        on_device |= bool((df["pid"] == 0).all() or (df["tid"] == 0).all())
    return DeviceType.GPU if on_device else DeviceType.CPU if (df["stream"] == -1).all() else DeviceType.UNKNOWN


@dataclass(frozen=True)
class GroupingPattern:
    """Names that begin with a match, or with inverse_match those that do not."""

    pattern: re.Pattern
    inverse_match: bool = False
    group_name: str = ""

    def match(self, name: str) -> bool:
        return (self.pattern.match(name) is None) == self.inverse_match


def to_grouping_pattern(
    pattern: str | list[str] | re.Pattern | GroupingPattern,
    group_name: str | None = None,
    inverse_match: bool | None = None,
) -> GroupingPattern:
    if isinstance(pattern, GroupingPattern):
        return pattern
    text = "|".join(f"({part})" for part in pattern) if isinstance(pattern, list) else pattern
    return GroupingPattern(re.compile(text), bool(inverse_match), group_name or "")


def _categories(name: str, *parts: str) -> GroupingPattern:
    return to_grouping_pattern(list(parts), name)


KERNEL_CATEGORY_PATTERN = _categories("GPU Kernels", "kernel", "gpu_mem.+", "mtia_ccp_events")
KERNEL_LAUNCH_CATEGORY_PATTERN = _categories("Kernel Launch", "cuda.*LaunchKernel", "cuLaunchKernel", "^runFunction")
CPU_OP_CATEGORY_PATTERN = _categories("CPU Ops", "cpu_op", "user_annotation")
DEVICE_RUNTIME_CATEGORY_PATTERN = _categories("Device Runtimes", "cuda_runtime", "mtia_runtime")
MEMORY_CATEGORY_PATTERN = _categories("Memory", "gpu_mem.+", "mtia_ccp_events")
GPU_EVENT_CATEGORY_PATTERN = _categories("GPU Events", ".*kernel", "^gpu_mem", "^mtia_ccp_events", "^cuda_sync")
CPU_EVENTS_CATEGORY_PATTERN = _categories("CPU Events", "cpu_op", "user_annotation", "^(.+)_runtime")
CPU_AND_GPU_EVENTS_CATEGORY_PATTERN = _categories(
    "CPU/GPU Events",
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    ".*kernel",
    "^gpu_mem",
    "^mtia_ccp_events",
    "^cuda_sync",
)
PYTHON_FUNCTION_PATTERN = _categories("Python Functions", "python_function")
CUDA_SYNC_PATTERN = _categories("CUDA Sync", "cuda_sync")
ALL_CATEGORY_PATTERN = GroupingPattern(re.compile(".*"), group_name="All")
