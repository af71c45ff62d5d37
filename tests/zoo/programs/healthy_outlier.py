"""Steps of a few milliseconds, and one that waits a fifth of a second."""

# expect: nothing
import time

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(9)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
data = torch.randn(48, 220)
for step in range(48):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step == 27:
        time.sleep(0.2)
