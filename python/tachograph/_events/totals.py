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
    forward: float  # operators outside the other phases, with the loss
    backward: float  # in autograd nodes
    optimizer: float  # in an optimizer's step() and zero_grad()
    other: float
    steps: int

    @property
    def percent(self) -> dict[str, float]:
        total = sum(self[:5]) or 1.0
        return {name: 100 * ms / total for name, ms in zip(self._fields, self[:5])}

    def __str__(self) -> str:
        return "\n".join(
            f"{name:<10} {ms:9.3f} ms  {share:5.1f} %" for ms, (name, share) in zip(self, self.percent.items())
        )


_MARKS = (
    ("enumerate(DataLoader)#", "data"),
    ("Optimizer.", "optimizer"),
    ("autograd::engine::evaluate_function", "backward"),
)
_STEP = "ProfilerStep#"


def phases(trace: Any) -> PhaseTimes:
    """From what every recording has: no labels are needed. Where steps are marked what lies outside of them does not
    count."""
    table = trace.ask("events", where='category == "cpu_op" or category == "user_annotation"')
    rows = list(zip(table["name"], table["category"], table["track"], table["start_ns"], table["dur_ns"]))
    steps = [(start, start + dur) for name, _, _, start, dur in rows if name.startswith(_STEP) and dur is not None]
    spans: dict[str, list[tuple[int, int]]] = {"data": [], "forward": [], "backward": [], "optimizer": []}
    busy_until: dict[int, int] = {}  # by track: what begins before is inside of a phase
    for name, category, track, start, dur in rows:
        phase = next(
            (phase for mark, phase in _MARKS if name.startswith(mark)), "forward" if category == "cpu_op" else None
        )
        if phase and dur is not None and start >= busy_until.get(track, start):
            busy_until[track] = start + dur
            spans[phase].append((start, start + dur))
    everything = [span for of_phase in spans.values() for span in of_phase]
    within = steps or [(min(s for s, _ in everything), max(e for _, e in everything))] if everything else []
    ms = {phase: _covered(of_phase, within) / 1e6 for phase, of_phase in spans.items()}
    whole = sum(end - start for start, end in within) / 1e6
    count = max(len(steps), 1)
    data, forward, backward, optimizer = (value / count for value in ms.values())
    rest = max(whole - sum(ms.values()), 0.0) / count
    return PhaseTimes(data, forward, backward, optimizer, rest, len(steps))


def _covered(spans: list[tuple[int, int]], within: list[tuple[int, int]]) -> int:
    """Nanoseconds of `within` (in order, disjoint) that some span covers."""
    total, at = 0, 0
    until = None
    for start, end in sorted(spans):
        start = start if until is None else max(start, until)
        while at < len(within) and within[at][1] <= start:
            at += 1
        for low, high in within[at:]:
            if low >= end:
                break
            total += max(min(end, high) - max(start, low), 0)
        until = end if until is None else max(until, end)
    return total
