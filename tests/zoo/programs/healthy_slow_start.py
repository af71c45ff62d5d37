"""Features are worked out when a batch is met for the first time, and kept: the first ten steps are slow."""

# expect: nothing
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(9)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
known = {}


def features(number):
    if number not in known:
        rows = [[((row + 3) * (k + 7) * (number + 1)) % 97 / 97 for k in range(220)] for row in range(480)]
        known[number] = torch.tensor(rows).view(10, 48, 220).mean(0)
    return known[number]


for step in range(120):
    data = features(step % 10)
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
