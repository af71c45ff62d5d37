"""The calls of HolisticTraceAnalysis 0.6.1 on Tachograph's engine: a notebook runs with `from hta.…` changed to `from
tachograph.hta.…`.

    from tachograph.hta.trace_analysis import TraceAnalysis
    analyzer = TraceAnalysis(trace_dir="traces")
    frame = analyzer.get_temporal_breakdown(visualize=False)

Every number is the engine's own answer: all events, no rounding. With hta_compat=True it is the number HTA 0.6.1
prints, its rounding, its step filter and its known defects included. pandas is imported when a frame is first made;
figures need plotly."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "TraceAnalysis": "trace_analysis",
    "TraceDiff": "trace_diff",
    "LabeledTrace": "trace_diff",
    "DeviceType": "trace_diff",
    "MemoryAnalysis": "memory_analysis",
}
__all__ = ["TraceAnalysis", "TraceDiff", "LabeledTrace", "DeviceType", "MemoryAnalysis"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
