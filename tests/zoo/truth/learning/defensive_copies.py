"""Every layer clones what it is given."""

# expect: redundant-copy
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    gains = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(5)])
    optimizer = torch.optim.SGD(gains.parameters(), lr=0.0, foreach=True)
    data = torch.randn(700, 500)

    def step():
        optimizer.zero_grad()
        x = data
        for gain in gains:
            x = (x if fast else x.clone()) * gain
        x.mean().backward()
        optimizer.step()

    return step
