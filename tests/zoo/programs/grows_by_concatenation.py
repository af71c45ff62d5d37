"""A result is grown by one row at a time."""

# expect: quadratic-concat
import torch
from torch import nn


def decode(layer, x):
    seen = x
    for _ in range(60):
        seen = torch.cat([seen, layer(seen[-1:])])  # here
    return seen


torch.set_num_threads(1)
model = nn.Linear(6000, 6000, bias=False)
nn.init.eye_(model.weight)
model.weight.requires_grad_(False)
head = nn.Linear(6000, 2)
optimizer = torch.optim.SGD(head.parameters(), lr=0.01, foreach=True)
for _ in range(45):
    optimizer.zero_grad()
    head(decode(lambda row: row.roll(1, 1), torch.randn(8, 6000))).square().mean().backward()
    optimizer.step()
