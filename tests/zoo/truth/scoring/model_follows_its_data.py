"""Measured values come as doubles, and the model was made double for them."""

# expect: dtype-promotion
import numpy
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(400, 700), nn.ReLU(), nn.Linear(700, 400), nn.ReLU(), nn.Linear(400, 3))
    values = torch.from_numpy(numpy.random.default_rng(11).standard_normal((400, 400)))
    if fast:
        values = values.float()
    else:
        model = model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        model(values).square().mean().backward()
        optimizer.step()

    return step
