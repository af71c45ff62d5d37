"""One thread computes on a machine with more cores."""

# expect: thread-underuse
# clock: wall
import os

import torch
from torch import nn


def make(fast):
    model = nn.Sequential(nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    threads = len(os.sched_getaffinity(0)) if fast else 1

    def step():
        torch.set_num_threads(threads)
        optimizer.zero_grad()
        model(torch.randn(400, 800)).square().mean().backward()
        optimizer.step()

    return step
