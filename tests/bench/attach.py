#!/usr/bin/env python3
"""Attaching: how long until the first record, beside a fresh process that imports and starts; how long the program
stands still, beside being held and let go and nothing else.

    attach.py [--rounds 7]

Prints a line for each figure with what must hold; ends with 1 where it does not."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TACHOGRAPH = os.environ.get("TACHOGRAPH", str(ROOT / "build" / "tachograph"))
LOOP = """
import pathlib, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 64)
pathlib.Path("runs").touch()
while True:
    optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()
"""
FRESH = """
import time
began = time.perf_counter()
import tachograph, tempfile
from tachograph import _record
from tachograph._collect import native
import torch
with native.NativeRecording(tempfile.mktemp(suffix=".tacho"), _record.DEFAULT):
    torch.ones(1) + 1
    print(time.perf_counter() - began)
"""


def fresh():
    return float(subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True).stdout)


def to_first_record(pid, folder):
    """Seconds from the start of the command until the recording runs."""
    out = folder / f"a{time.monotonic_ns()}"
    began = time.time()
    env = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable}
    words = ["attach", str(pid), "--steps", "5", "-o", str(out)]
    command = subprocess.Popen([TACHOGRAPH, *words], stderr=subprocess.DEVNULL, env=env)
    log = out / "raw" / f"log-{pid}"
    while not (log.exists() and "phase window" in log.read_text()):
        if command.poll() is not None:
            sys.exit("attach.py: the command ended before it recorded")
        time.sleep(0.0005)
    took = time.time() - began
    command.wait()
    shutil.rmtree(out)
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tachograph-attach-") as name:
        folder = pathlib.Path(name)
        target = subprocess.Popen([sys.executable, "-c", LOOP], cwd=folder)
        try:
            while not (folder / "runs").exists():
                time.sleep(0.01)
            first, imports = [], []
            for _ in range(rounds):
                imports.append(fresh())
                first.append(to_first_record(target.pid, folder))
            bench = subprocess.run(
                [TACHOGRAPH.removesuffix("tachograph") + "attach_bench", str(target.pid), "100"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
        finally:
            target.kill()
            target.wait()
    empty, queued = (json.loads(line) for line in bench.stdout.splitlines())
    took, beside = statistics.median(first), statistics.median(imports)
    figures = [
        ("until it records", 1e3 * took, "a fresh process imports and starts", 1e3 * beside, "ms", 5),
        ("stands still", queued["median_ns"] / 1e3, "held and let go", empty["median_ns"] / 1e3, "us", 3),
        ("stands still at most", queued["most_ns"] / 1e3, "held and let go", empty["most_ns"] / 1e3, "us", 3),
    ]
    for what, value, other, other_value, unit, must in figures:
        ratio = value / other_value
        failed += ratio > must
        print(f"attach, {what}: {value:.0f} {unit}; {other}: {other_value:.0f} {unit}; {ratio:.2f} x, must {must} x")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
