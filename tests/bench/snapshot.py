#!/usr/bin/env python3
"""Memory snapshots of a million events: reading them against Python's own pickle.load, and the memory it takes.

    snapshot.py [--bin build/tachograph] [--folder DIR] [--events N] [--rounds N]

Two files are made once in DIR (default: the system's folder for temporary files): with stacks of about 20 frames, which
is what _record_memory_history() gives, and without. The reader runs on one core. `must` are 300 MB/s of CPU time and as
much memory as the file has bytes."""

import argparse
import pathlib
import pickle
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure

LOAD = "import pickle, gc, sys; gc.disable(); pickle.load(open(sys.argv[1], 'rb'))"


def make(events, frames):
    r = random.Random(1)
    known = [
        {"filename": f"/usr/lib/python3/package/module_{i % 40}.py", "line": i * 7 % 900, "name": f"function_{i}"}
        for i in range(400)
    ]
    stacks = [[known[r.randrange(400)] for _ in range(frames)] for _ in range(300)]
    live, trace, base, time_us = {}, [], 0x7F0000000000, 1_700_000_000_000_000

    def add(action, addr, size):
        nonlocal time_us
        time_us += r.randrange(1, 50)
        trace.append(
            {
                "action": action,
                "addr": addr,
                "size": size,
                "stream": 0,
                "time_us": time_us,
                "compile_context": "N/A",
                "user_metadata": "",
                "pool_id": (0, 0),
                "frames": list(r.choice(stacks)),
            }
        )

    while len(trace) < events:
        if live and (len(live) > 500 or r.random() < 0.45):
            addr = next(iter(live))
            size = live.pop(addr)
            add("free_requested", addr, size)
            add("free_completed", addr, size)
        else:
            addr = base + (len(trace) % 4000) * (1 << 20)
            if addr not in live:
                live[addr] = 512 * r.randrange(1, 2000)
                add("alloc", addr, live[addr])
    blocks = [
        {"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": list(stacks[0])}
        for a, s in sorted(live.items())
    ]
    segment = {
        "device": 0,
        "address": base,
        "total_size": 1 << 32,
        "allocated_size": sum(live.values()),
        "active_size": sum(live.values()),
        "requested_size": sum(live.values()),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": list(stacks[0]),
        "blocks": blocks,
    }
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/tachograph")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    core = {min(measure.os.sched_getaffinity(0))}
    for frames in (20, 0):
        path = args.folder / f"tachograph-snapshot-{args.events}-{frames}.pickle"
        if not path.exists():
            path.write_bytes(pickle.dumps(make(args.events, frames), protocol=4))
        size = path.stat().st_size
        ours_command, theirs_command = [args.bin, "ask", str(path), "losses"], [sys.executable, "-c", LOAD, str(path)]
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(measure.timed(ours_command, core)[1])
            theirs.append(measure.timed(theirs_command, core)[1])
        seconds, peer = statistics.median(ours), statistics.median(theirs)
        memory, peer_memory = measure.peak_anonymous(ours_command, core), measure.peak_anonymous(theirs_command, core)
        print(f"snapshot of {args.events} events, {frames} frames each, {size / 1e6:.0f} MB:")
        print(
            f"  read               {size / seconds / 1e6:8.0f} MB/s   must 300   (pickle.load alone {size / peer / 1e6:.0f} MB/s, {peer / seconds:.1f} x)"
        )
        print(
            f"  memory             {memory / size:8.2f} x the file   must 1   (pickle.load {peer_memory / size:.2f} x)"
        )


if __name__ == "__main__":
    main()
