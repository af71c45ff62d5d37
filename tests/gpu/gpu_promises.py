#!/usr/bin/env python3
"""The promises of docs/gpu.md on a real GPU, each part by itself or all of them; needs no network, takes the torch that
is installed.

    python tests/gpu/gpu_promises.py [PART ...]      exit status 1 when one is broken; figures as lines of JSON"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
STEPS, SESSIONS, PROCESSES = 20, 1000, 5


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
    """How much longer a launch-bound step takes while it is recorded, and after: at most a third of torch.profiler's
    share. Each in processes of its own, in turn, as torch leaves CUPTI in the driver until the process ends."""
    shares: dict[str, list[tuple[float, float]]] = {"torch": [], "native": []}
    for _ in range(PROCESSES):
        for who, found in shares.items():
            plain, on, after = in_a_process("one_inflation", who, folder)
            found.append((on / plain - 1, after / plain - 1))
    on, after = ({who: statistics.median(x[i] for x in found) for who, found in shares.items()} for i in (0, 1))
    figure = {"while recorded": on, "after": after, "all": shares}
    yield "inflation at most a third", figure, on["native"] <= on["torch"] / 3
    yield "nothing left after stop", after, after["native"] <= 0.05


def one_inflation(who: str, folder: str) -> None:
    step = launch_bound()
    for _ in range(4):
        step_ms(step)
    plain = statistics.median(step_ms(step) for _ in range(3))
    with recorded(who, Path(folder, f"{who}.json")):
        step_ms(step, 5)
        on = statistics.median(step_ms(step) for _ in range(3))
    step_ms(step, 5)
    print(json.dumps([plain, on, statistics.median(step_ms(step) for _ in range(3))]))


def in_a_process(function: str, *arguments: str, script: str = __file__) -> Any:
    """What a function of the script prints last, called in a process of its own; its status where it fails."""
    command = [sys.executable, script, "--call", function, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{function} ended with status {done.returncode}: {done.stderr[-600:]}")
    return json.loads(done.stdout.splitlines()[-1])


def detach(folder: str) -> Any:
    """Windows come and go while other threads launch, copy and replay graphs: nothing breaks, nor in torch.profiler
    after."""
    found = in_a_process("one_detach", folder)
    yield "sessions beside busy threads", found, found["right"] and found["torch"] == 500 and found["sessions"] == 200


def one_detach(folder: str) -> None:
    import threading

    import torch
    from tachograph import _record
    from tachograph._collect.native import NativeRecording

    over, wrong, rounds = threading.Event(), [], []

    def work(kind: str) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.ones(1 << 12, device="cuda")
            captured = torch.cuda.CUDAGraph()
            if kind == "graph":
                with torch.cuda.graph(captured, capture_error_mode="thread_local"):
                    y = x * 2
            n = 0
            while not over.is_set():
                if kind == "graph":
                    captured.replay()
                elif kind == "launch":
                    y = x * 2
                else:
                    y = torch.full((1 << 12,), 2.0).cuda(non_blocking=True)
                n += 1
                if n % 50 == 0 and y.sum().item() != 2 * (1 << 12):
                    wrong.append(kind)
            rounds.append(n)

    threads = []
    for kind in ("graph", "launch", "copy", "launch"):  # a graph is captured before the next thread starts
        threads.append(threading.Thread(target=work, args=(kind,)))
        threads[-1].start()
        time.sleep(0.5)
    step, kernels, began = launch_bound(), [], time.perf_counter()
    for _ in range(200):
        recording = NativeRecording(Path(folder, "busy.tacho"), _record.CUDA, required=_record.CUDA)
        recording.start()
        step()
        recording.stop()
        kernels.append(_record.cuda()["kernels"])
    seconds = time.perf_counter() - began
    over.set()
    for thread in threads:
        thread.join()
    theirs = counts(events_of("torch", step, folder, steps=1))["kernel"]
    figure = {"sessions": sum(k >= 500 for k in kernels), "right": not wrong, "torch": theirs, "rounds": rounds}
    print(json.dumps({**figure, "ms_a_session": seconds * 5}))


def export(folder: str) -> Any:
    """An export holds what torch's does: names, streams and the arguments of each category of device work and calls."""
    step = train()
    for _ in range(3):
        step()
    ours, theirs = events_of("native", step, folder), events_of("torch", step, folder)
    for category in (*DEVICE_WORK, "cuda_runtime", "cuda_driver"):
        a, b = ([e for e in events if e.get("cat") == category] for events in (theirs, ours))
        for what, of in (
            ("names", lambda e: e["name"]),
            ("arguments", lambda e: sorted(e["args"])),
            ("places", lambda e: (e["args"].get("device"), e["args"].get("stream"))),
            ("sizes", lambda e: [e["args"].get(k) for k in ("grid", "block", "bytes", "registers per thread")]),
            ("occupancy", lambda e: e["args"].get("est. achieved occupancy %")),
        ):
            x, y = (collections.Counter(str(of(e)) for e in side) for side in (a, b))
            figure = {"torch alone": dict((x - y).most_common(4)), "ours alone": dict((y - x).most_common(4))}
            yield f"{category}: the same {what}", figure if x != y else len(x), x == y


def beside_torch(folder: str) -> Any:
    """Torch's profiler before us, after us, and at the same time."""
    import torch

    step = launch_bound()
    step()
    kinds = torch.profiler.ProfilerActivity
    for order in (("torch", "native"), ("native", "torch")):
        found = {who: counts(events_of(who, step, folder, steps=2))["kernel"] for who in order}
        yield f"{order[0]}, then {order[1]}: all kernels", found, set(found.values()) == {1000}
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as outer:
        said = ""
        try:
            with recorded("native", Path(folder, "refused.json")):
                step()
        except RuntimeError as error:
            said = str(error)
        step()
        torch.cuda.synchronize()
    kernels = sum(e.device_type == torch.autograd.DeviceType.CUDA for e in outer.events())
    yield (
        "inside torch's window: refused, torch's window whole",
        {"said": said, "kernels": kernels},
        bool(said) and kernels >= 500,
    )
    from tachograph import _record

    with recorded("native", Path(folder, "outer.json")):
        step()
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as inner:
            step()
            torch.cuda.synchronize()
        step()
    figure = {
        "ours": _record.cuda(),
        "theirs": sum(e.device_type == torch.autograd.DeviceType.CUDA for e in inner.events()),
    }
    whole = figure["ours"]["kernels"] == 500 and figure["theirs"] == 500
    yield "torch's window inside ours: theirs is whole, ours up to it", figure, whole


# What CUPTI took for itself, which depends on its buffers and ours.
OVERHEADS = ("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource", "Command Buffer Full")


def tables(folder: str) -> Any:
    """key_averages(): the rows, calls and device times of torch.profiler; the columns of its table."""
    import tachograph
    import torch

    step, found, headers = train(), {}, {}
    for _ in range(5):
        step()
    for who, module in (("torch", torch.profiler), ("ours", tachograph)):
        with module.profile(activities=[module.ProfilerActivity.CPU, module.ProfilerActivity.CUDA]) as profile:
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
        found[who] = {e.key: e for e in profile.key_averages() if e.key not in OVERHEADS}
        headers[who] = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=5).splitlines()[1]
        found[who + " events"] = sum(e.name not in OVERHEADS for e in profile.events())
    theirs, ours = found["torch"], found["ours"]
    rows = sorted(set(theirs) ^ set(ours))
    yield "tables: the same rows", rows or len(ours), not rows
    calls = {k: (theirs[k].count, ours[k].count) for k in theirs if k in ours and theirs[k].count != ours[k].count}
    yield "tables: the same calls", calls or sum(e.count for e in ours.values()), not calls
    total = [sum(e.self_device_time_total for e in side.values()) for side in (theirs, ours)]
    yield "tables: device time within 3 %", total, abs(total[1] / total[0] - 1) < 0.03
    apart = {}
    for k, e in theirs.items():
        if k in ours and e.device_time_total > 1000 and abs(ours[k].device_time_total / e.device_time_total - 1) > 0.05:
            apart[k] = (e.device_time_total, ours[k].device_time_total)
    yield "tables: device time of each row within 5 %", apart or "all", not apart
    words = [headers[who].split() for who in ("torch", "ours")]
    yield "tables: the same columns", " ".join(words[1]), words[0] == words[1]
    yield "tables: as many events", found["ours events"], found["ours events"] == found["torch events"]


def nccl(folder: str) -> Any:
    """Collectives of a group of one."""
    import torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl")
    x = torch.randn(1 << 16, device="cuda")

    def step() -> None:
        torch.distributed.all_reduce(x)
        torch.distributed.broadcast(x, 0)
        (x * 2).sum()

    step()
    ours, theirs = (counts(events_of(who, step, folder)) for who in ("native", "torch"))
    yield (
        "nccl: as many as torch.profiler",
        {"torch": theirs, "ours": ours},
        all(ours[c] == theirs[c] for c in DEVICE_WORK),
    )
    torch.distributed.destroy_process_group()


def first_use(folder: str) -> Any:
    """In a process that has not recorded yet: this part runs by itself."""
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


PARTS = {
    f.__name__: f for f in (completeness, export, tables, inflation, first_use, sessions, detach, beside_torch, nccl)
}


def run_parts(parts: dict[str, Any], names: list[str]) -> int:
    """Prints each promise of the parts named, or of all, as a line of JSON. → the exit status: 1 when one is broken, 2
    where nothing can be measured."""
    unknown = [name for name in names if name not in parts]
    reason = f"no such part: {unknown[0]}; there are {', '.join(parts)}" if unknown else refusal()
    if reason:
        print(f"make gpu: {reason}", file=sys.stderr)
        return 2
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names or parts:
            for promise, figure, kept in parts[name](folder):
                print(json.dumps({"part": name, "promise": promise, "figure": figure, "kept": kept}), flush=True)
                broken += not kept
    return int(broken > 0)


def main(names: list[str]) -> int:
    if names[:1] == ["--call"]:
        globals()[names[1]](*names[2:])
        return 0
    return run_parts(PARTS, names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
