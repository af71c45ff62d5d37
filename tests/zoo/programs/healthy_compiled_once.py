"""A model that is compiled at its first step, and then replayed."""

# expect: nothing
import torch
from torch import nn

model = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 300))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
compiled = torch.compile(model, backend="eager")
data = torch.randn(256, 300)
for _ in range(60):
    optimizer.zero_grad()
    (compiled(data) - data).square().mean().backward()
    optimizer.step()
