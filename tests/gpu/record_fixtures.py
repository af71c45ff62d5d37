#!/usr/bin/env python3
"""Record a small set of real traces with torch.profiler, where a GPU is at hand.

    record_fixtures.py OUT [--only NAME,...] [--device cuda|cpu] [--max-mb 1]      --list names them

Each recording runs in a process of its own, is packed with gzip, must stay within --max-mb, and is listed in
OUT/manifest.json with what it holds. Without torch or without a GPU nothing is recorded; one line reports that, and it
is no failure.
--device cpu records those that need no GPU, to try the script out.
"""

import argparse
import collections
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

RECORDINGS = {}


def recording(gpu=True, modules=()):
    """Registers a function (torch, device, path) that writes one trace (or pickle) to path."""

    def register(function):
        RECORDINGS[function.__name__] = {
            "function": function,
            "gpu": gpu,
            "modules": modules,
            "what": function.__doc__.strip(),
            "suffix": ".pickle" if function.__name__.endswith("snapshot") else ".json",
        }
        return function

    return register


# ---- the programs ------------------------------------------------------------------------------------------


def small_net(torch, device):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 10),
    ).to(device)


def batch(torch, device):
    return torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 10, (8,), device=device)


def activities(torch, device):
    kinds = torch.profiler.ProfilerActivity
    return [kinds.CPU, kinds.CUDA] if device == "cuda" else [kinds.CPU]


def profiled(torch, device, path, work, steps=3, warmup=2, **options):
    """Runs work(k) for each step, records the steps after the warm-up, writes the trace."""
    schedule = torch.profiler.schedule(wait=0, warmup=warmup, active=steps)
    with torch.profiler.profile(
        activities=activities(torch, device),
        schedule=schedule,
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
        **options,
    ) as prof:
        for k in range(warmup + steps):
            work(k)
            prof.step()
    if device == "cuda":
        torch.cuda.synchronize()


def training(torch, device):
    net, loss = small_net(torch, device), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = batch(torch, device)

    def step(_):
        with torch.profiler.record_function("forward"):
            out = loss(net(x), y)
        out.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@recording(gpu=False)
def eager_training(torch, device, path):
    """three steps of a small CNN with shapes and memory events"""
    profiled(torch, device, path, training(torch, device), record_shapes=True, profile_memory=True)


@recording(gpu=False)
def with_stack(torch, device, path):
    """one step with Python frames and modules"""
    profiled(
        torch, device, path, training(torch, device), steps=1, with_stack=True, with_modules=True, record_shapes=True
    )


@recording(modules=("triton",))
def compiled_triton(torch, device, path):
    """torch.compile: fused Triton kernels"""
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)).to(device)
    compiled, x = torch.compile(net), torch.randn(64, 256, device=device)
    for _ in range(3):
        compiled(x).sum().backward()  # compile outside the recording
    profiled(torch, device, path, lambda _: compiled(x).sum().backward(), record_shapes=True)


@recording()
def cuda_graph(torch, device, path):
    """replay of a CUDA graph: many kernels from one launch"""
    net, x = small_net(torch, device).eval(), batch(torch, device)[0]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        net(x)
    profiled(torch, device, path, lambda _: graph.replay())


@recording()
def several_streams(torch, device, path):
    """copies and matrix products that overlap on three streams"""
    streams = [torch.cuda.Stream() for _ in range(3)]
    squares = [torch.randn(512, 512, device=device) for _ in streams]
    pinned = torch.randn(1 << 20).pin_memory()

    def step(_):
        for stream, square in zip(streams, squares):
            with torch.cuda.stream(stream):
                (square @ square).relu_()
        pinned.to(device, non_blocking=True)
        torch.cuda.synchronize()

    profiled(torch, device, path, step)


@recording()
def sync_events(torch, device, path):
    """events waited for across streams, with Kineto's synchronisation records"""
    config = torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.randn(512, 512, device=device)

    def step(_):
        ready = torch.cuda.Event()
        with torch.cuda.stream(one):
            y = x @ x
            ready.record(one)
        with torch.cuda.stream(two):
            two.wait_event(ready)
            y.relu_()
        two.synchronize()
        torch.cuda.synchronize()

    profiled(torch, device, path, step, experimental_config=config)


@recording()
def nccl_one_rank(torch, device, path):
    """collectives of a group of one"""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl")
    try:
        x = torch.randn(1 << 16, device=device)

        def step(_):
            torch.distributed.all_reduce(x)
            torch.distributed.broadcast(x, 0)
            (x * 2).sum()

        profiled(torch, device, path, step)
    finally:
        torch.distributed.destroy_process_group()


@recording()
def memory_snapshot(torch, device, path):
    """pickle of the caching allocator's history over two steps"""
    torch.cuda.memory._record_memory_history(max_entries=5000)
    step = training(torch, device)
    for k in range(2):
        step(k)
    torch.cuda.memory._dump_snapshot(str(path))
    torch.cuda.memory._record_memory_history(enabled=None)


# ---- recording, packing, listing ---------------------------------------------------------------------------


def contents(data):
    """Events per category of a trace's text; None for what is no JSON."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    events = document["traceEvents"] if isinstance(document, dict) else document
    return dict(collections.Counter(str(e.get("cat")) for e in events))


def pack(raw, folder, limit):
    """Packs a file into folder; returns its entry. ValueError when it is empty or too large."""
    data = raw.read_bytes()
    if not data:
        raise ValueError("nothing was written")
    packed = gzip.compress(data, 9, mtime=0)
    if len(packed) > limit:
        raise ValueError("%d bytes packed, more than %d" % (len(packed), limit))
    out = folder / (raw.name + ".gz")
    out.write_bytes(packed)
    entry = {
        "file": out.name,
        "bytes": len(data),
        "packed_bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    counts = contents(data)
    return {**entry, "categories": counts} if counts is not None else entry


def missing(names):
    import importlib.util

    return [n for n in names if importlib.util.find_spec(n) is None]


def about(torch, device):
    out = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "python": sys.version.split()[0],
    }
    if device == "cuda":
        out["device"] = torch.cuda.get_device_name(0)
        with contextlib.suppress(Exception):
            out["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return out


def record_one(name, device, path):
    import torch

    RECORDINGS[name]["function"](torch, device, pathlib.Path(path))


def record_all(names, device, folder, limit, run):
    """run(name, path) makes the raw file. Returns the manifest's entries, failures among them."""
    entries = []
    for name in names:
        spec = RECORDINGS[name]
        entry = {"name": name, "what": spec["what"]}
        raw = folder / (name + spec["suffix"])
        start = time.monotonic()
        try:
            if missing(spec["modules"]):
                raise ValueError("needs " + ", ".join(missing(spec["modules"])))
            if spec["gpu"] and device == "cpu":
                raise ValueError("needs a GPU")
            run(name, raw)
            entry.update(pack(raw, folder, limit), seconds=round(time.monotonic() - start, 1))
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            entry["not_recorded"] = str(error)
        raw.unlink(missing_ok=True)
        entries.append(entry)
        print("%-18s %s" % (name, entry.get("not_recorded") or "%(packed_bytes)d bytes" % entry), flush=True)
    return entries


def in_a_process(device):
    def run(name, path):
        command = [sys.executable, os.path.abspath(__file__), str(path), "--device", device, "--one", name]
        child = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if child.returncode:
            raise ValueError(
                "failed: " + (child.stderr.strip().splitlines() or ["status %d" % child.returncode])[-1][:300]
            )

    return run


def reason_not_to(device):
    """Why nothing can be recorded here; None when it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed here"
    if device == "cuda" and not torch.cuda.is_available():
        return "no GPU is at hand (torch %s)" % torch.__version__
    return None


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", help="comma-separated names")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--max-mb", type=float, default=1.0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.list:
        for name, spec in RECORDINGS.items():
            print("%-18s %s%s" % (name, spec["what"], "" if spec["gpu"] else " (a CPU is enough)"))
        return 0
    names = args.only.split(",") if args.only else list(RECORDINGS)
    unknown = [n for n in names if n not in RECORDINGS]
    if args.out is None or unknown:
        parser.error("unknown recording: " + ", ".join(unknown) if unknown else "OUT is missing")
    if args.one:
        record_one(args.one, args.device, args.out)
        return 0
    reason = reason_not_to(args.device)
    if reason:
        print("nothing recorded: %s" % reason)
        return 0
    import torch

    args.out.mkdir(parents=True, exist_ok=True)
    entries = record_all(names, args.device, args.out, int(args.max_mb * 1e6), in_a_process(args.device))
    manifest = {"recorded_with": about(torch, args.device), "recordings": entries}
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    done = sum("file" in e for e in entries)
    print("%d of %d recorded in %s" % (done, len(entries), args.out))
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
