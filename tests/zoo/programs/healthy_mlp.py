"""Products and their gradients, a fused optimizer: nothing to be won."""

# expect: nothing
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 400), nn.ReLU(), nn.Linear(400, 256))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data = torch.randn(2048, 256)
for step in range(48):
    rows = data[(step % 14) * 128 : (step % 14) * 128 + 128]
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()
