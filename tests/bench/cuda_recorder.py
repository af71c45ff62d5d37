#!/usr/bin/env python3
"""The recorder of CUDA devices with the stand-ins of tests/fake: what decoding costs, files, memory, the stop.

    cuda_recorder.py [--build build] [--kernels 10000000]

Kernels are played in parts, with as much time between them as the helper thread needs; what is lost all the same is
counted and printed."""

import argparse
import ctypes
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bench import Table

PART, PAUSE_S = 20_000, 0.012
FEW = 100_000


def play(fakes, kernels, path):
    """In a process of its own: a recording of so many kernels and their launches. Prints what it was as JSON."""
    cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")  # found as one that is loaded already
    ctypes.CDLL(f"{fakes}/libcuda.so.1")

    from tachograph import _record
    from tachograph._collect.native import NativeRecording

    recording = NativeRecording(path, _record.CUDA, required=_record.CUDA)
    recording.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    script = f"kernels {PART} 2000 1000 4\nflush\n".encode()
    for _ in range(kernels // PART):
        assert cupti.fake_run(script) == 0
        time.sleep(PAUSE_S)
    time.sleep(0.1)  # what is decoded at the stop are the last buffers, 16 at most, however long it was
    began = time.perf_counter()
    recording.stop()
    stop_s = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({**_record.cuda(), "stop_s": stop_s, "grown_kib": grown}))


def played(fakes, kernels, path):
    command = [sys.executable, __file__, "--play", str(fakes), str(kernels), str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def decoding(table, program, folder):
    said = [subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout for _ in range(5)]
    pattern = r"decoded [\d.]+ \(([\d.]+) x\), decoded and written [\d.]+ \(([\d.]+) x\); ([\d.]+) M"
    decoded, written, speed = (sorted(map(float, v)) for v in zip(*(re.search(pattern, s).groups() for s in said)))
    table.add("a buffer decoded, over its memcpy (median of 5)", decoded[2], "x", must=8)
    table.add("decoded and written to the file (median of 5)", written[2], "x")
    table.add("records a second of a core, decoded and written", speed[2], "M/s", aim=5, lower=False)


def recordings(table, fakes, kernels, folder):
    few, many = (played(fakes, n, folder / f"{n}.tacho") for n in (FEW, kernels))
    records = many["kernels"] + many["calls"]
    size = (folder / f"{kernels}.tacho").stat().st_size
    packed = folder / "packed.tacho"
    subprocess.run(["tachograph", "convert", folder / f"{FEW}.tacho", "-o", packed], check=True, capture_output=True)
    note = f"{many['kernels']:,} kernels, {many['lost']:,} records lost and counted"
    table.add("callbacks on the launching thread", many["callbacks"], "", must=0, note=note)
    table.add("file, bytes a record", size / records, "B", must=32, aim=24)
    table.add("packed, bytes a kernel with its launch", packed.stat().st_size / few["kernels"], "B", must=10, aim=6)
    note = "the budget is 64 MiB"
    table.add("memory while recording, beyond the start", many["grown_kib"] / 1024, "MiB", must=64, note=note)
    note = f"{many['stop_s'] * 1e3:.3g} / {few['stop_s'] * 1e3:.3g} ms"
    table.add(f"stop after {kernels:,} kernels, over {FEW:,}", many["stop_s"] / few["stop_s"], "x", must=1.5, note=note)


def main():
    if sys.argv[1:2] == ["--play"]:
        return play(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build")
    parser.add_argument("--kernels", type=int, default=10_000_000)
    args = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="tachograph-cuda-") as folder:
        decoding(table, args.build / "cuda_bench", folder)
        recordings(table, args.build / "fake", args.kernels, pathlib.Path(folder))
    return None


if __name__ == "__main__":
    main()
