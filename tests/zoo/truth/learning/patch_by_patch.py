"""Patches of a picture go through a filter one at a time."""

# expect: per-sample-loop, tiny-batches
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Conv2d(3, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        patches = torch.randn(64, 3, 20, 20)
        optimizer.zero_grad()
        out = model(patches) if fast else torch.stack([model(patch[None])[0] for patch in patches])
        out.square().mean().backward()
        optimizer.step()

    return step
