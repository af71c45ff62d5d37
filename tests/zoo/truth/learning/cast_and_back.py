"""Each norm is taken in double precision, and cast back."""

# expect: dtype-promotion
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    scales = nn.ParameterList([nn.Parameter(torch.ones(200)) for _ in range(4)])
    optimizer = torch.optim.SGD(scales.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        x = torch.randn(500, 200)
        for scale in scales:
            wide = x if fast else x.double()
            x = (wide * (1e-6 + wide.square().mean(1, keepdim=True)).rsqrt()).float() * scale
        x.sum().backward()
        optimizer.step()

    return step
