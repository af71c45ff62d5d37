"""Batches of many lengths, and a history of bounded length: memory goes up and down, and all of it is used again."""

# expect: nothing
# preset: deep
import collections

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(9)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
data = torch.randn(56, 220)
history, curve = collections.deque(maxlen=6), []
for step in range(90):
    part = data[: 40 + step * 7 % 17]
    optimizer.zero_grad()
    out = model(part)
    loss = (out - part).square().mean()
    loss.backward()
    optimizer.step()
    history.append(out.detach())
    curve.append(loss.item())
