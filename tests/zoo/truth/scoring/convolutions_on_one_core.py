"""Convolutions run on one thread, as a script of another machine had it."""

# expect: thread-underuse
# clock: wall
import os

import torch
from torch import nn


def make(fast):
    threads = len(os.sched_getaffinity(0)) if fast else 1
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(32 * 16 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    pictures = torch.randn(16, 3, 64, 64)

    def step():
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        optimizer.zero_grad()
        model(pictures).square().mean().backward()
        optimizer.step()

    return step
