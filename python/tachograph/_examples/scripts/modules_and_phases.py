"""Which module takes the time, forward and backward, and which phase of a step?

Shown: modules without any label in the model, and the phases that torch marks."""

import tachograph as tg
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 64)

with tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=5, repeat=1), with_modules=True) as prof:
    for _ in range(8):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        prof.step()

print(prof.trace.ask("modules", limit=8))
print(prof.phases())
