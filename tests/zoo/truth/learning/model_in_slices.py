"""The model runs on four rows at a time."""

# expect: tiny-batches, per-sample-loop
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        x = torch.randn(256, 64)
        out = model(x) if fast else torch.cat([model(piece) for piece in x.split(4)])
        out.square().mean().backward()
        optimizer.step()

    return step
