"""A checkpoint once in the whole run."""

# expect: nothing
import io

import torch
from torch import nn

model = nn.Sequential(nn.Linear(400, 500), nn.GELU(), nn.Linear(500, 400))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
data = torch.randn(240, 400)
for step in range(60):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step == 30:
        torch.save(model.state_dict(), io.BytesIO())
