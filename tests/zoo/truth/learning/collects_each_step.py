"""The garbage collector is called in each step."""

# expect: gc-pressure
import gc

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 10))
    gc.freeze()  # what torch has made
    tree = [[{"a": [i]}] for i in range(20000)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        model(torch.randn(128, 300)).square().mean().backward()
        optimizer.step()
        if not fast:
            gc.collect()
        return tree

    return step
