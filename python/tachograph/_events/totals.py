"""The results of profile.totals(), by_class() and phases(): answers of the engine as objects for a script."""

from __future__ import annotations

from typing import Any, NamedTuple


class Totals(NamedTuple):
    """Times of a whole run, in milliseconds. Only sum_ms and device_sum_ms count an instant more than once."""

    wall_ms: float  # from the first event to the end of the last
    cpu_ms: float  # some thread is inside an operator; never above wall_ms
    thread_cpu_ms: float  # the same per thread, added up over threads: self times and runtime calls of all operators
    device_ms: float  # a device works
    device_sum_ms: float  # durations of all device work, added up
    sum_ms: float  # durations of all operators, added up: the sum of the rows of a table


def totals(trace: Any) -> Totals:
    rows = trace.ask("totals").to_dicts()
    names = ("wall_ns", "cpu_ns", "thread_cpu_ns", "device_ns", "device_sum_ns", "nested_cpu_ns")
    return Totals(*(sum(row[name] for row in rows) / 1e6 for name in names))


def by_class(trace: Any, device: bool | None = None) -> dict[str, float]:
    rows = trace.ask("op_classes").to_dicts()
    if device is None:
        return {row["class"]: row["fraction"] or 0.0 for row in rows}
    column = "device_ns" if device else "self_cpu_ns"
    whole = sum(row[column] for row in rows)
    return {row["class"]: row[column] / whole if whole else 0.0 for row in rows}


class PhaseTimes(NamedTuple):
    """Host time of a step by phase, in milliseconds; `other` is the rest: Python between operators, and waiting."""

    data: float  # in the DataLoader
    forward: float  # operators outside the other phases
    loss: float  # in operators of a loss
    backward: float  # in autograd nodes
    optimizer: float  # in an optimizer's step() and zero_grad()
    other: float
    steps: int  # 0: none is marked, and the recording counts as one

    @property
    def percent(self) -> dict[str, float]:
        total = sum(self[:6]) or 1.0
        return {name: 100 * ms / total for name, ms in zip(self._fields, self[:6])}

    def __str__(self) -> str:
        return "\n".join(
            f"{name:<10} {ms:9.3f} ms  {share:5.1f} %" for ms, (name, share) in zip(self, self.percent.items())
        )


def phases(trace: Any) -> PhaseTimes:
    """The answer to the question phases, of the first rank."""
    rows = trace.ask("phases").to_dicts()
    ms = {row["phase"]: row["host_ns"] / 1e6 for row in reversed(rows)}
    return PhaseTimes(**ms, steps=rows[0]["steps"])
