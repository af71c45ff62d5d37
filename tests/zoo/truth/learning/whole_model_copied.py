"""The whole model is copied in each step."""

# expect: full-model-copy
import copy

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(180, 180) for _ in range(30)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)

    def step():
        kept = None if fast else copy.deepcopy(model.state_dict())
        optimizer.zero_grad()
        model(torch.randn(8, 180)).square().mean().backward()
        optimizer.step()
        return kept

    return step
