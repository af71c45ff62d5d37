#!/usr/bin/env python3
"""Memory of CUDA devices on a real GPU: the promises of docs/gpu.md, as gpu_promises.py prints them.

python tests/gpu/gpu_memory.py      exit status 1 when one is broken; figures as lines of JSON"""

from __future__ import annotations

import collections
import json
import sys
import threading
from pathlib import Path
from typing import Any

from gpu_promises import run_parts, train

FIELDS = ("Device Type", "Device Id", "Bytes")


def events_of(module: Any, work: Any, path: Path, **options: Any) -> list[dict[str, Any]]:
    """An export of module.profile while work() runs."""
    import torch

    kinds = torch.profiler.ProfilerActivity
    with module.profile(activities=[kinds.CPU, kinds.CUDA], profile_memory=True, **options) as profile:
        work()
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def memory_events(module: Any, work: Any, path: Path, **options: Any) -> list[dict[str, Any]]:
    """What it holds of the memory of devices."""
    events = events_of(module, work, path, **options)
    found = [e for e in events if e["name"] in ("[memory]", "[OutOfMemory]") and e["args"]["Device Type"] != 0]
    return sorted(found, key=lambda e: e["ts"])


def both(work: Any, folder: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    import tachograph
    import torch

    theirs = memory_events(torch.profiler, work, Path(folder, "torch.json"))
    return theirs, memory_events(tachograph, work, Path(folder, "ours.json"), backend="native")


def out_of_memory() -> None:
    import torch

    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return
    raise AssertionError("a petabyte was to be had")


def from_the_driver(folder: str) -> tuple[list[int], list[int]]:
    """Segments that torch's allocator says it took from the driver and gave back, and those that the driver reports."""
    import tachograph
    import torch

    size, counts = 64 << 20, ("num_device_alloc", "num_device_free")

    def work() -> None:
        blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(3)]
        del blocks
        torch.cuda.empty_cache()

    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats()
    events = events_of(tachograph, work, Path(folder, "driver.json"), backend="native")
    after = torch.cuda.memory_stats()
    taken = [e for e in events if e["name"] == "Memory Allocation (Device)" and e["args"]["bytes"] == size]
    addresses = {e["args"]["Addr"] for e in taken}
    given = [e for e in events if e["name"] == "Memory Release (Device)" and e["args"]["Addr"] in addresses]
    return [after[c] - before[c] for c in counts], [len(taken), len(given)]


def promises(folder: str) -> Any:
    import torch

    step = train()
    for _ in range(5):
        step()

    def steps() -> None:
        for _ in range(10):
            step()

    theirs, ours = both(steps, folder)
    a, b = (collections.Counter(tuple(e["args"].get(f) for f in FIELDS) for e in side) for side in (theirs, ours))
    yield "memory: the same changes", len(ours) if a == b else [dict(a - b), dict(b - a)], a == b
    totals = [[(e["args"]["Total Allocated"], e["args"]["Total Reserved"]) for e in side] for side in (theirs, ours)]
    same = totals[0] == totals[1]
    yield "memory: the same totals, one after the other", len(totals[1]) if same else totals[1][:4], same
    theirs, ours = both(out_of_memory, folder)
    asked = [[(e["name"], e["args"]["Bytes"]) for e in side if e["name"] == "[OutOfMemory]"] for side in (theirs, ours)]
    yield "memory: what could not be had", asked, asked[0] == asked[1] == [("[OutOfMemory]", 1 << 50)]

    def threads() -> None:
        def work() -> None:
            for _ in range(250):
                torch.empty(1 << 20, device="cuda")

        all_ = [threading.Thread(target=work) for _ in range(4)]
        for thread in all_:
            thread.start()
        for thread in all_:
            thread.join()

    _, ours = both(threads, folder)
    yield "memory: every thread", len(ours), len(ours) == 2000
    asked_for, reported = from_the_driver(folder)
    yield "memory: segments taken from the driver and given back", reported, reported == asked_for == [3, 3]


if __name__ == "__main__":
    sys.exit(run_parts({"memory": promises}, sys.argv[1:]))
