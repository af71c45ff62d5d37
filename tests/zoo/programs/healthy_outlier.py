"""Steps of a few milliseconds, and one that waits a fifth of a second."""

# expect: nothing
import time

import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
data = torch.randn(128, 256)
for step in range(60):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step == 27:
        time.sleep(0.2)
