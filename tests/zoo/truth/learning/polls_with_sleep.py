"""The loop sleeps before each batch."""

# expect: host-waits
# clock: wall
import time

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(200, 500), nn.ReLU(), nn.Linear(500, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        if not fast:
            time.sleep(0.006)
        optimizer.zero_grad()
        model(torch.randn(128, 200)).square().mean().backward()
        optimizer.step()

    return step
