"""Batches of very different lengths, in no order: long steps hold more work, and none comes at a distance."""

# expect: nothing
import random

import torch
from torch import nn

random.seed(3)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
for _ in range(120):
    data = torch.randn(random.choice([40, 40, 60, 80, 200]), 220)
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
