#!/usr/bin/env python3
"""What the recorder of CUDA devices costs, with the stand-ins for NVIDIA's libraries (tests/fake); needs no GPU.

    cuda.py [--build build] [--rounds 5] [--most 10000000] [--out FILE.json] [--docs docs/gpu.md]

Kernels and their launches are played as fast as the recorder takes them. Every recording is a process of its own; short
and long ones alternate. `records` are what the file holds: a kernel and its launch are two.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bench import Table, markdown, rewrite
from measure import machine

PIECE = 25_000  # kernels and launches of so many fit into the pool of buffers
EVERY, DURATION, STREAMS, JITTER = 600, 400, 4, 300  # ns; without jitter packed columns would be nothing but constants
median = statistics.median


def helper_seconds():
    """CPU time of the recorder's helper thread."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().rpartition(")")
        if name.endswith("(tachograph"):
            return sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def play(fakes, kernels, path):
    """In a process of its own: one recording; what it did, as JSON."""
    cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")  # found as one that is loaded already
    ctypes.CDLL(f"{fakes}/libcuda.so.1")
    cupti.fake_number.restype = ctypes.c_uint64
    from tachograph import _record

    _record.open(path, features=_record.CUDA | _record.CUDA_WAITS, required=_record.CUDA, disk_bytes=4 << 30)
    _record.resume()
    time.sleep(0.03)  # what the rate of the clock is measured over
    for done in range(0, kernels, PIECE):
        begin = time.monotonic()
        if cupti.fake_run(b"kernels %d %d %d %d %d\nflush\n" % (PIECE, EVERY, DURATION, STREAMS, JITTER)):
            sys.exit("the stand-in refuses its script")
        while _record.cuda()["kernels"] + _record.cuda()["lost"] < done + PIECE and time.monotonic() < begin + 30:
            time.sleep(0.001)
        time.sleep(max(0, begin + PIECE * EVERY * 1e-9 + 0.001 - time.monotonic()))  # until the last one is over
    buffers, helper = _record.cuda()["buffer_bytes"], helper_seconds()
    begin = time.perf_counter()
    cupti.cuptiActivityFlushAll(0)  # CUPTI's part of a stop
    middle = time.perf_counter()
    made = _record.close()
    end = time.perf_counter()
    source = _record.cuda()
    print(
        json.dumps(
            {
                "stop": end - middle,
                "flush": middle - begin,
                "records": made["records"],
                "lost": made["lost"] + source["lost"],
                "memory": made["peak_memory_bytes"],
                "buffers": buffers,
                "callbacks": source["callbacks"],
                "helper": helper,
                "bytes": os.path.getsize(path),
            }
        )
    )


def decoding(table, args):
    run = subprocess.run([args.build / "cuda_bench", args.work], capture_output=True, text=True, check=True)
    got = json.loads(run.stdout)
    table.add(
        "decoding a buffer / memcpy of it",
        got["decoded_ratio"],
        "x",
        must=8,
        note="%.1f ns a record, memcpy from memory %.1f ns" % (got["decoded_ns"], got["memcpy_ns"]),
    )
    table.add(
        "decoding a buffer and writing its records / memcpy of it",
        got["written_ratio"],
        "x",
        must=8,
        note="%.1f ns a record" % got["written_ns"],
    )
    table.add("records decoded and written, one core", 1e3 / got["written_ns"], "M/s", aim=5, lower=False)


def recordings(args):
    """{kernels: what each round did}; the file of the last round of each is kept."""
    short, long = min(100_000, args.most), args.most
    runs = {short: [], long: []}
    for _ in range(args.rounds):
        for kernels, made in runs.items():
            command = [sys.executable, __file__, "--play", str(kernels), "--build", str(args.build)]
            run = subprocess.run([*command, "--work", args.work], capture_output=True, text=True, timeout=300)
            if run.returncode:
                sys.exit(run.stderr)
            made.append(json.loads(run.stdout))
    return runs


def rows_of_recordings(table, args):
    runs = recordings(args)
    short, long = sorted(runs)
    last = runs[long][-1]
    table.add("callbacks for %d launches" % long, max(r["callbacks"] for r in runs[long]), "", must=0)
    table.add("records lost of %d kernels and launches" % long, max(r["lost"] for r in runs[long]), "", must=0)
    table.add(
        "memory while recording %d kernels" % long,
        max(r["memory"] for r in runs[long]) / 2**20,
        "MiB",
        must=64,
        note="buffers %.0f MiB of it" % (last["buffers"] / 2**20),
    )
    table.add(
        "records a second of the helper thread's CPU time",
        median(r["records"] / r["helper"] for r in runs[long]) / 1e6,
        "M/s",
        aim=5,
        lower=False,
        note="all that it does: decoding, fresh pages, checksums, the stand-in's walk",
    )
    seconds = {k: [r["stop"] for r in of] for k, of in runs.items()}
    for kernels, made in runs.items():
        table.add(
            "stop after %d kernels" % kernels,
            median(seconds[kernels]) * 1e3,
            "ms",
            note="%.1f to %.1f ms; the stand-in's flush %.2f ms"
            % (
                min(seconds[kernels]) * 1e3,
                max(seconds[kernels]) * 1e3,
                median(r["flush"] for r in made) * 1e3,
            ),
        )
    table.add(
        "stop after %d kernels / after %d" % (long, short),
        median(seconds[long]) / median(seconds[short]),
        "x",
        must=1.5,
    )
    table.add(
        "file, raw, %d kernels and launches" % long,
        last["bytes"] / last["records"],
        "B/record",
        must=32,
        aim=24,
    )


def packed(table, args):
    import tachograph as tg

    path, out = args.work / "cuda-100000.tacho", args.work / "packed.tacho"
    records = 200_000
    tg.open(path).save(out)
    table.add("file, packed, 100000 kernels and launches", out.stat().st_size / records, "B/record", must=10, aim=6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build", help="cuda_bench and fake/")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=10**7, help="kernels of the long recording")
    parser.add_argument("--work", type=pathlib.Path, help="where recordings lie meanwhile")
    parser.add_argument("--play", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out")
    parser.add_argument("--docs")
    args = parser.parse_args()
    if args.play:
        return play(args.build / "fake", args.play, str(args.work / ("cuda-%d.tacho" % args.play)))
    folder = tempfile.mkdtemp(prefix="tachograph-bench-")
    args.work = pathlib.Path(folder)
    about, table = machine(), Table()
    try:
        decoding(table, args)
        rows_of_recordings(table, args)
        packed(table, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(table.rows, indent=1))
    if args.docs:
        rewrite(pathlib.Path(args.docs), markdown(about, table.rows))
    return None


if __name__ == "__main__":
    main()
