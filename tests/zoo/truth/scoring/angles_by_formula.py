"""Features of time stamps are worked out by the math module, number by number."""

# expect: slow-python-transform
import math

import torch
from torch import nn

STAMPS, WAVES = 500, 32


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(2 * WAVES, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    stamps = [0.37 * k for k in range(STAMPS)]
    all_stamps = torch.tensor(stamps, dtype=torch.float64)
    waves = torch.arange(1, WAVES + 1, dtype=torch.float64) / 10

    def features():
        if fast:
            angles = torch.outer(all_stamps, waves)
            return torch.cat([angles.sin(), angles.cos()], 1).float()
        rows = []
        for stamp in stamps:
            angles = [stamp * wave / 10 for wave in range(1, WAVES + 1)]
            rows.append([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])
        return torch.tensor(rows)

    def step():
        optimizer.zero_grad()
        model(features()).square().mean().backward()
        optimizer.step()

    return step
