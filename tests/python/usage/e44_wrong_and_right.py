"""Pairs of a wrong and a right way to profile: never stopped early enough, and a loop shorter than the schedule."""

import shim
import warnings
import torch
import tachograph as tg


def run(steps, plan):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with tg.profile(schedule=plan) as prof:
            for _ in range(steps):
                torch.ones(8).sum()
                prof.step()
    return [str(w.message) for w in said], len(prof.key_averages())


print("wrong", *run(2, tg.schedule(wait=1, warmup=2, active=3, repeat=1)))
print("right", *run(6, tg.schedule(wait=1, warmup=2, active=3, repeat=1)))
