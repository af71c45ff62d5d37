"""Gradients of large layers are filled with zeros before each step."""

# expect: gradient-zero-fill
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(700, 700) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=fast)
        model(torch.randn(4, 700)).square().mean().backward()
        optimizer.step()

    return step
