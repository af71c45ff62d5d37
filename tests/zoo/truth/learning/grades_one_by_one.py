"""Grades are counted value by value."""

# expect: per-element-item, tensor-index-loop
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(50, 80), nn.Tanh(), nn.Linear(80, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        out = model(torch.randn(3000, 50))
        out.square().mean().backward()
        optimizer.step()
        counts = [0] * 12
        best = out.argmax(1)
        for grade in best.tolist() if fast else best:
            counts[int(grade)] += 1

    return step
