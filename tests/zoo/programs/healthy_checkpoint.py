"""A checkpoint once in the whole run."""

# expect: nothing
import io

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(160, 200), nn.GELU(), nn.Linear(200, 200), nn.GELU(), nn.Linear(200, 160))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
data = torch.randn(64, 160)
for step in range(48):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step == 30:
        torch.save(model.state_dict(), io.BytesIO())
