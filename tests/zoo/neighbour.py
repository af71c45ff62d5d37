#!/usr/bin/env python3
"""A busy neighbour: keeps one core busy until it is told to end.

    python tests/zoo/neighbour.py [--core N] [--seconds S]

Pinned to one core (the last that this process may use), so that programs beside it have all others to themselves.
bars.py and tests use `Neighbour()` as a context."""

import argparse
import os
import subprocess
import sys
import time


class Neighbour:
    """Runs this file beside the block."""

    def __init__(self, core=None):
        self.command = [sys.executable, __file__, *(["--core", str(core)] if core is not None else [])]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def spin(core, seconds):
    os.sched_setaffinity(0, {core})
    end = time.monotonic() + seconds
    parent = os.getppid()
    while time.monotonic() < end and os.getppid() == parent:
        for _ in range(200000):
            pass


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    options.add_argument("--seconds", type=float, default=float("inf"))
    given = options.parse_args()
    spin(given.core, given.seconds)


if __name__ == "__main__":
    main()
