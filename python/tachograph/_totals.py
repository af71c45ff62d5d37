"""What profile.totals() and profile.by_class() give: two questions to the engine, brought into the form a script wants."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional


class Totals(NamedTuple):
    """Times of a whole run, in milliseconds. Only sum_ms and device_sum_ms count an instant more than once."""
    wall_ms: float        # from the first event to the end of the last
    cpu_ms: float         # some thread is inside an operator; never above wall_ms
    thread_cpu_ms: float  # the same per thread, added up over threads: self times and runtime calls of all operators
    device_ms: float      # a device works
    device_sum_ms: float  # durations of all device work, added up
    sum_ms: float         # durations of all operators, added up: what summing the rows of a table gives


def totals(trace: Any) -> Totals:
    rows = trace.ask("totals").to_dicts()
    names = ("wall_ns", "cpu_ns", "thread_cpu_ns", "device_ns", "device_sum_ns", "nested_cpu_ns")
    return Totals(*(sum(row[name] for row in rows) / 1e6 for name in names))


def by_class(trace: Any, device: Optional[bool] = None) -> dict[str, float]:
    rows = trace.ask("op_classes").to_dicts()
    if device is None:
        return {row["class"]: row["fraction"] or 0.0 for row in rows}
    column = "device_ns" if device else "self_cpu_ns"
    whole = sum(row[column] for row in rows)
    return {row["class"]: row[column] / whole if whole else 0.0 for row in rows}
