"""Where delays go, and what the replayed steps say that they cost."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from .. import Trace

ON_PATH, OFF_PATH, LOADER = "on the path", "off the path", "in the loader"
MOST_CALLS = 64  # of a place in a step: each call takes its part of the delay
FREE_PCT = 5  # of the step: what has as much slack is off the path, and on it what has less than a fifth of that


class Refused(Exception):
    """There is no prediction to test: why, in one sentence."""


@dataclass
class Place:
    where: str
    name: str
    category: str
    calls: float  # of a step
    delay_ns: int  # of each call
    predicted_ns: int = 0  # that a step takes longer
    low_ns: int = 0
    high_ns: int = 0

    @property
    def total_ns(self) -> float:
        """Of a step."""
        return self.calls * self.delay_ns


@dataclass
class Plan:
    step_ns: int  # as recorded, without the time in which its thread was ready and had no core
    steps: int  # of the program from the first recorded one on
    places: list[Place]
    missing: list[str]  # which of the three kinds the program does not have


def plan(trace: Trace, share_pct: float) -> Plan:
    model = next(iter(trace.ask("step_model")))
    if model["verdict"] != "proven":
        raise Refused(f"the steps have no model to test: {model['reason']}. To get one, {model['remedy']}")
    rank = {} if model["rank"] is None else {"rank": model["rank"]}
    step_ns, steps = _own_ns(trace, rank), int(model["steps"] or 0)
    resources = trace.ask("step_model", by="resource", **rank)
    main = next(row["track"] for row in resources if row["name"] == "thread of the steps")
    process = {row["track"]: row["pid"] for row in trace.ask("tracks", **rank)}
    rows = [
        row
        for row in trace.ask("slack", **rank)
        if row["steps"] == steps and row["calls"] <= MOST_CALLS * steps and not {'"', "\\"} & set(row["name"])
    ]
    found = {
        ON_PATH: _on_path(rows, main, step_ns),
        OFF_PATH: _off_path(rows, main, process, step_ns),
        LOADER: [row for row in rows if row["name"].startswith("enumerate(Data") and row["track"] == main],
    }
    places, missing = [], []
    for where, candidates in found.items():
        total_ns = step_ns * share_pct / 100
        place = next(filter(None, (_place(trace, where, row, steps, total_ns, rank) for row in candidates)), None)
        if place is None:
            missing.append(where)
        else:
            places.append(place)
    if not places:
        raise Refused("the program calls no operator in each of its steps, so no operator can be delayed")
    return Plan(step_ns, _steps_left(trace, rank), places, missing)


def _own_ns(trace: Trace, rank: dict[str, Any]) -> int:
    """What a step of the model takes as the runs with delays time it: without the waits for a core, which would make
    the delays of a recording on a busy machine too long."""
    of_model = {row["step"]: row["recorded_ns"] for row in trace.ask("step_model", by="step", **rank)}
    waits = {int(row["step"]): row["core_wait_ns"] or 0 for row in trace.ask("steps", **rank)}
    return round(median(max(ns - waits.get(step, 0), 0) for step, ns in of_model.items()))


def _steps_left(trace: Trace, rank: dict[str, Any]) -> int:
    of_run = {row["quantity"]: row["value"] for row in trace.ask("overview", where='group = "run"', **rank)}
    return int((of_run.get("steps_timed") or 0) - (of_run.get("first_recorded_step") or 0))


def _on_path(rows: list[Any], main: int, step_ns: int) -> list[Any]:
    """The fewest calls in a step first, and of these what takes longest: a thing of its own, no part of a loop."""
    least = step_ns * FREE_PCT / 500
    chosen = [
        row for row in rows if row["category"] == "cpu_op" and row["track"] == main and row["slack_ns"] is not None
    ]
    return sorted((row for row in chosen if row["slack_ns"] < least), key=lambda row: (row["calls"], -row["dur_ns"]))


def _off_path(rows: list[Any], main: int, process: dict[int, str], step_ns: int) -> list[Any]:
    """Operators of the same process that may take longer. Those that some step waits for come first: they test how much
    longer."""
    bounded, free = [], []
    for row in rows:
        if row["category"] != "cpu_op" or row["track"] is None or process[row["track"]] != process[main]:
            continue
        if row["slack_ns"] is None:
            free.append(row)
        elif row["slack_ns"] * row["calls"] >= step_ns * row["steps"] * FREE_PCT / 100:
            bounded.append(row)
    bounded.sort(key=lambda row: -row["slack_ns"] * row["calls"])
    return bounded + sorted(free, key=lambda row: (row["calls"], -row["dur_ns"]))


def _place(trace: Trace, where: str, row: Any, steps: int, total_ns: float, rank: dict[str, Any]) -> Place | None:
    """None: what-if selects other calls than those that are to begin later."""
    place = Place(where, row["name"], row["category"], row["calls"] / steps, round(total_ns * steps / row["calls"]))
    expression = f'name = "{place.name}" and category = "{place.category}" {place.delay_ns}ns'
    answer = next(iter(trace.ask("what_if", add=expression, **rank)))
    if answer["verdict"] != "proven" or answer["changed"] != row["calls"]:
        return None
    place.predicted_ns, place.low_ns, place.high_ns = -answer["saving_ns"], -answer["high_ns"], -answer["low_ns"]
    return place
