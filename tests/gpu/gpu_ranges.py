#!/usr/bin/env python3
"""Labels on the streams of a real GPU: as many as torch.profiler's of the same program, by name and stream, and each
around the work that was launched in it.

    python tests/gpu/gpu_ranges.py      exit status 1 when a promise is broken; figures as lines of JSON"""

from __future__ import annotations

import collections
import json
import sys
from pathlib import Path
from typing import Any

from gpu_promises import DEVICE_WORK, recorded, run_parts

STEPS, WITHIN_US = 10, 10.0
Spans = dict[tuple[str, int, int], list[tuple[float, float]]]


def program() -> Any:
    """Labels that nest, two streams, and work of a step outside of all labels but its own."""
    import torch

    x, side = torch.randn(1024, 1024, device="cuda"), torch.cuda.Stream()

    def step(number: int) -> None:
        with torch.profiler.record_function(f"ProfilerStep#{number}"):
            with torch.profiler.record_function("outer"):
                y = x @ x
                with torch.profiler.record_function("inner"):
                    y = y.relu()
                    with torch.cuda.stream(side):
                        (x * 2).sum()
                y = y + 1
            y.mean()
            torch.cuda.synchronize()

    return step


def events_of(who: str, step: Any, folder: str) -> list[dict[str, Any]]:
    path = Path(folder, f"{who}.json")
    with recorded(who, path):
        for number in range(STEPS):
            step(number)
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]


def spans_of(events: list[dict[str, Any]]) -> Spans:
    """By name and stream, in the order of their starts."""
    found: Spans = collections.defaultdict(list)
    for e in sorted(events, key=lambda e: e["ts"]):
        if e.get("cat") == "gpu_user_annotation":
            found[e["name"], e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    return dict(found)


def derived(events: list[dict[str, Any]]) -> Spans:
    """What must be there, from the same trace: the work whose launch began in a label and in none inside of it."""
    labels = [e for e in events if e.get("cat") == "user_annotation"]
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]
    }
    spans: dict[tuple[int, int, int], list[float]] = {}
    for work in (e for e in events if e.get("cat") in DEVICE_WORK):
        call = calls.get(work["args"]["correlation"])
        around = [
            (label["ts"], -label["dur"], n)
            for n, label in enumerate(labels)
            if call and label["tid"] == call["tid"] and label["ts"] <= call["ts"] <= label["ts"] + label["dur"]
        ]
        if around:
            span = spans.setdefault((max(around)[2], work["pid"], work["tid"]), [work["ts"], work["ts"]])
            span[:] = min(span[0], work["ts"]), max(span[1], work["ts"] + work["dur"])
    found: Spans = collections.defaultdict(list)
    for (n, pid, tid), (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        found[labels[n]["name"], pid, tid].append((start, end))
    return dict(found)


def farthest_us(one: Spans, other: Spans) -> float:
    return max(
        (
            abs(a - b)
            for key in one
            for x, y in zip(one[key], other[key], strict=True)
            for a, b in zip(x, y, strict=True)
        ),
        default=0.0,
    )


def promises(folder: str) -> Any:
    step = program()
    step(0)
    theirs, ours = events_of("torch", step, folder), events_of("native", step, folder)
    a, b, must = spans_of(theirs), spans_of(ours), derived(ours)
    counts = [sum(map(len, x.values())) for x in (a, b)]
    same = sorted((name, len(x)) for (name, _, _), x in a.items()) == sorted(
        (name, len(x)) for (name, _, _), x in b.items()
    )
    yield "labels on streams: names and number as torch.profiler's", counts, same and counts[0] > 0
    yield "labels on streams: on the same streams", len(a), a.keys() == b.keys()
    equal = {k: len(x) for k, x in b.items()} == {k: len(x) for k, x in must.items()}
    away = farthest_us(b, must) if equal else None
    yield "labels on streams: us from the work that they stand around", away, away is not None and away <= 0.01
    lengths = [
        abs((x[1] - x[0]) - (y[1] - y[0])) for k in a.keys() & b.keys() for x, y in zip(a[k], b[k], strict=False)
    ]
    lengths.sort()
    middle = lengths[len(lengths) // 2] if lengths else None
    yield (
        "labels on streams: us from torch.profiler's length, median",
        middle,
        middle is not None and middle <= WITHIN_US,
    )
    linked = {e["args"]["External id"] for e in ours if e.get("cat") == "user_annotation"}
    spans = [e for e in ours if e.get("cat") == "gpu_user_annotation"]
    carried = sum(e["args"].get("External id") in linked for e in spans)
    yield "labels on streams: carry the id of their label", [carried, len(spans)], carried == len(spans) > 0


if __name__ == "__main__":
    sys.exit(run_parts({"labels": promises}, sys.argv[1:]))
