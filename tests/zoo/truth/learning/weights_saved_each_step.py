"""The weights are saved in each step."""

# expect: sync-checkpoint, periodic-stall
import io

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    done = [0]

    def step():
        optimizer.zero_grad()
        model(torch.randn(64, 220)).square().mean().backward()
        optimizer.step()
        done[0] += 1
        if not fast or done[0] % 20 == 0:
            torch.save(model.state_dict(), io.BytesIO())

    return step
