"""Products and their gradients, a fused optimizer: nothing to be won."""

# expect: nothing
import torch
from torch import nn

model = nn.Sequential(nn.Linear(320, 700), nn.ReLU(), nn.Linear(700, 320))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data = torch.randn(4096, 320)
for step in range(60):
    rows = data[(step % 14) * 256 : (step % 14) * 256 + 256]
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()
