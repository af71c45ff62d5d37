"""Targets come as doubles, and the loss follows them."""

# expect: dtype-promotion
import numpy as np
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Linear(300, 1500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    targets = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 1500)))
    targets = targets.float() if fast else targets

    def step():
        optimizer.zero_grad()
        out = model(torch.randn(300, 300))
        error = out - targets
        (error.square() + error.abs() * 0.1).mean().backward()
        optimizer.step()

    return step
