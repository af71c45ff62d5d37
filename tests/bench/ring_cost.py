#!/usr/bin/env python3
"""What a flight recorder adds to the preset that it records: CPU time of the program's thread, a step.

    ring_cost.py [--rounds 25] [--steps 40]

Blocks of steps take turns in a shuffled order: bare, a lean recording in a ring of the same size, the flight recorder
with the triggers of its default. The figure is the median over rounds of the difference to the bare block of the same
round."""

import argparse
import contextlib
import random
import statistics
import tempfile
import time

import tachograph as tg
import torch
from tachograph import _record
from tachograph._collect import native

RING = 64 << 20
WARM = 5  # steps of a block that are not timed: files are opened, steps are found

torch.set_num_threads(1)
layers = [torch.nn.Linear(128, 128) for _ in range(40)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(64, 128)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


@contextlib.contextmanager
def lean(folder):
    with native.NativeRecording(f"{folder}/lean.tacho", _record.LEAN, disk_bytes=RING, keep="last"):
        yield


def block(around, steps):
    """ns of CPU a step, of this thread: backward on the CPU runs on it too."""
    with around:
        train(WARM)
        began = time.thread_time_ns()
        train(steps)
        return (time.thread_time_ns() - began) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tachograph-ring-") as folder:
        contenders = {
            "bare": contextlib.nullcontext,
            "lean": lambda: lean(folder),
            "flight": lambda: tg.flight_recorder(folder=f"{folder}/flight", budget=RING, rest="1h"),
        }
        times = {name: [] for name in contenders}
        train(4 * WARM)
        for _ in range(args.rounds):
            for name in random.sample(list(contenders), len(contenders)):
                times[name].append(block(contenders[name](), args.steps))
    added = {name: statistics.median(a - b for a, b in zip(times[name], times["bare"])) for name in ("lean", "flight")}
    bare = statistics.median(times["bare"])
    print(f"a bare step {bare / 1e6:.3f} ms of CPU")
    for name, ns in added.items():
        print(f"{name:<7} adds {ns / 1e3:.1f} us, {100 * ns / bare:.2f} %")
    print(f"flight recorder beside lean: {added['flight'] / added['lean']:.2f} x of what is added")


if __name__ == "__main__":
    main()
