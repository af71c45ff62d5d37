"""The window that all programs here have: with the profiler named in PROFILER, or with none. Prints what it counted."""

import contextlib
import importlib
import json
import os
import sys
import time

import torch


def give_to_libraries():
    """The profiler named in PROFILER in the place of torch's, for libraries that make one themselves; its name."""
    name = os.environ.get("PROFILER", "")
    if name:
        sys.modules["torch.profiler"] = torch.profiler = importlib.import_module(name)
    return name


class Nothing:
    def step(self):
        pass


@contextlib.contextmanager
def window():
    name = os.environ.get("PROFILER")
    if not name:
        yield Nothing()
        print(json.dumps({"done": True}))
        return
    profiler = importlib.import_module(name)  # the import that is changed
    plan = profiler.schedule(wait=2, warmup=1, active=3, repeat=1)
    began = time.perf_counter()
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=plan, record_shapes=True) as prof:
        yield prof
    say(prof.key_averages(group_by_input_shape=True), began)


def say(averages, began):
    """What was counted since `began`, as the last line of the output."""
    elapsed_us = 1e6 * (time.perf_counter() - began)
    counts = {}
    for row in averages:
        counts[row.key] = counts.get(row.key, 0) + row.count
    shapes = sorted([row.key, str(row.input_shapes), row.count] for row in averages if row.key.startswith("aten::"))
    facts = {"counts": counts, "shapes": shapes, "self_us": averages.self_cpu_time_total, "elapsed_us": elapsed_us}
    facts["made_by"] = type(averages).__module__.partition(".")[0]
    print(json.dumps(facts))


def recorded(step):
    with window() as prof:
        for _ in range(10):
            step()
            prof.step()
