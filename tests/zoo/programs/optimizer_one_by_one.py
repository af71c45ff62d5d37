"""Many small parameters, updated one at a time."""

# expect: single-tensor-optimizer
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.ModuleList([nn.Sequential(nn.Linear(12, 12), nn.LayerNorm(12)) for _ in range(60)])
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3, foreach=False)
for _ in range(50):
    optimizer.zero_grad()
    x = torch.randn(10, 12)
    for layer in model:
        x = x + layer(x)
    x.square().mean().backward()
    optimizer.step()  # here
