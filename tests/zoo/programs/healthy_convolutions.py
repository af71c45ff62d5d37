"""Convolutions in channels_last, where the time is theirs."""

# expect: nothing
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(12, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.AvgPool2d(4))
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
images = torch.randn(6, 12, 24, 24).contiguous(memory_format=torch.channels_last)
for _ in range(48):
    optimizer.zero_grad()
    model(images).square().mean().backward()
    optimizer.step()
