"""Runs a program of the truth set: its function make(fast) builds a model and returns the function of one step.

    python pair.py learning/grades_one_by_one.py slow 40      40 steps as they are; fast: the corrected twin
    python pair.py learning/grades_one_by_one.py both 8 6     6 rounds: 8 steps of each, one by one; times as JSON

Steps that are timed begin after a few that are not. Under `tachograph run` each step is marked."""

import json
import pathlib
import runpy
import sys
import time

UNTIMED = 4


def timed(step, count):
    """Seconds of each step: on the clock, and on a core in this process."""
    wall, core = [], []
    for _ in range(count):
        begin, begin_core = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - begin)
        core.append(time.process_time() - begin_core)
    return wall, core


def one_by_one(slow, fast, count):
    """Of two that only compute: what else the machine does meets both."""
    turns = [(timed(slow, 1), timed(fast, 1)) for _ in range(count)]
    return [[sum(clock, []) for clock in zip(*of, strict=True)] for of in zip(*turns, strict=True)]


def in_blocks(slow, fast, count):
    """Of two that wait for others, which go on meanwhile."""
    times = []
    for step in (slow, fast):
        timed(step, UNTIMED)
        times.append(timed(step, count))
    return times


def alternate(make, turns, count, rounds):
    slow, fast = make(False), make(True)
    timed(slow, UNTIMED)
    timed(fast, UNTIMED)
    of_rounds = [turns(slow, fast, count) for _ in range(rounds)]
    json.dump({name: [times[k] for times in of_rounds] for k, name in enumerate(("slow", "fast"))}, sys.stdout)


def main(path, which, count, rounds):
    make = runpy.run_path(path)["make"]
    if which == "both":
        waits = "# clock: wall" in pathlib.Path(path).read_text()
        alternate(make, in_blocks if waits else one_by_one, count, rounds)
        return
    step = make(which == "fast")
    mark = getattr(sys.modules.get("tachograph"), "step", lambda: None)
    for _ in range(count):
        step()
        mark()


if __name__ == "__main__":
    count, rounds = [int(number) for number in sys.argv[3:]] + [40, 6][len(sys.argv) - 3 :]
    main(sys.argv[1], sys.argv[2], count, rounds)
