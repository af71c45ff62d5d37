#!/usr/bin/env python3
"""The promises of docs/gpu.md on a real GPU, each part alone or all of them; needs no network, takes the torch that is
installed.

    python tests/gpu/gpu_promises.py [PART ...]      exit status 1 when one is broken; figures as lines of JSON"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
STEPS, SESSIONS = 20, 1000


def refusal() -> str | None:
    """Why nothing can be measured here."""
    try:
        import torch
    except ImportError:
        return "torch is not installed: pip install torch"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} has no CUDA device here"
    return None


# ---- programs ----------------------------------------------------------------------------------------------


def train() -> Any:
    """A step of a small model: a copy in, forward, backward, update, a value out."""
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(64, 512).pin_memory()

    def step() -> None:
        loss = model(batch.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def launch_bound() -> Any:
    import torch

    x = torch.zeros(16, device="cuda")

    def step() -> None:
        for _ in range(500):
            x.add_(1)

    return step


def streams() -> Any:
    import torch

    side = [torch.cuda.Stream() for _ in range(4)]
    x = [torch.zeros(1 << 16, device="cuda") for _ in side]
    torch.cuda.synchronize()

    def step() -> None:
        for stream, value in zip(side, x, strict=True):
            with torch.cuda.stream(stream):
                for _ in range(10):
                    value.mul_(1.5)

    return step


def graph() -> Any:
    import torch

    x = torch.zeros(1 << 12, device="cuda")
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(20):
            x.add_(1)
    return captured.replay


def compiled() -> Any:
    import torch

    function = torch.compile(lambda x: (x.sin() + x.cos()).relu())
    x = torch.randn(1 << 16, device="cuda")
    return lambda: function(x)


PROGRAMS = {"train": train, "streams": streams, "graph": graph, "compiled": compiled}

# ---- recording ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def recorded(who: str, path: Path) -> Any:
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    if who == "torch":
        profile = torch.profiler.profile(activities=activities)
    else:
        import tachograph

        profile = tachograph.profile(activities=activities, backend="native")
    with profile:
        yield
        torch.cuda.synchronize()
    profile.export_chrome_trace(str(path))


def events_of(who: str, step: Any, folder: str, steps: int = STEPS) -> list[dict[str, Any]]:
    path = Path(folder, f"{who}.json")
    with recorded(who, path):
        for _ in range(steps):
            step()
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]


def counts(events: list[dict[str, Any]]) -> dict[str, int]:
    found = {category: sum(e.get("cat") == category for e in events) for category in DEVICE_WORK}
    launches = {e["args"]["correlation"] for e in events if e.get("cat") in DEVICE_WORK}
    calls = {e["args"].get("correlation") for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    return {**found, "linked": len(launches & calls), "launches": len(launches)}


def step_ms(step: Any, times: int = 40) -> float:
    import torch

    taken = []
    for _ in range(times):
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


# ---- parts: what each yields is (promise, figure, kept) ----------------------------------------------------


def completeness(folder: str) -> Any:
    """The same counts as torch.profiler's, every piece of work linked, and durations within 1 % at the median."""
    for name, make in PROGRAMS.items():
        step = make()
        for _ in range(3):
            step()
        theirs, ours = events_of("torch", step, folder), events_of("native", step, folder)
        a, b = counts(theirs), counts(ours)
        yield f"{name}: as many as torch.profiler", {"torch": a, "ours": b}, all(a[c] == b[c] for c in DEVICE_WORK)
        yield f"{name}: all linked", b["linked"], b["linked"] == b["launches"]
        mine, other = (statistics.median(e["dur"] for e in x if e.get("cat") == "kernel") for x in (ours, theirs))
        yield f"{name}: median duration within 1 %", mine / other, abs(mine / other - 1) <= 0.01


def inflation(folder: str) -> Any:
    """How much longer a launch-bound step takes while it is recorded: at most a third of torch.profiler's share."""
    step = launch_bound()
    plain = step_ms(step)
    with recorded("torch", Path(folder, "a.json")):
        theirs = step_ms(step) / plain - 1
    with recorded("native", Path(folder, "b.json")):
        ours = step_ms(step) / plain - 1
    yield "inflation at most a third", {"torch": theirs, "ours": ours}, ours <= theirs / 3
    after = step_ms(step) / plain - 1
    yield "nothing left after stop", after, after <= 0.05


def first_use(folder: str) -> Any:
    """In a process that has not recorded yet: this part runs alone."""
    step = launch_bound()
    step()
    began = time.perf_counter()
    with recorded("native", Path(folder, "first.json")):
        stall = time.perf_counter() - began
        step()
    yield "first use, s", stall, stall < 5


def sessions(folder: str) -> Any:
    from tachograph import _record
    from tachograph._collect.native import NativeRecording

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    step, kernels = launch_bound(), set()
    for i in range(SESSIONS):
        if i == SESSIONS // 10:
            before = resident()
        recording = NativeRecording(Path(folder, "session.tacho"), _record.CUDA, required=_record.CUDA)
        recording.start()
        step()
        recording.stop()
        kernels.add(_record.cuda()["kernels"])
    grown = resident() - before
    yield "every session has every kernel", sorted(kernels), kernels == {500}
    yield "no growth over sessions, bytes", grown, grown < 8 << 20


PARTS = {"completeness": completeness, "inflation": inflation, "first_use": first_use, "sessions": sessions}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    reason = f"no such part: {unknown[0]}; there are {', '.join(PARTS)}" if unknown else refusal()
    if reason:
        print(f"make gpu: {reason}", file=sys.stderr)
        return 2
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names or PARTS:
            for promise, figure, kept in PARTS[name](folder):
                print(json.dumps({"part": name, "promise": promise, "figure": figure, "kept": kept}), flush=True)
                broken += not kept
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
