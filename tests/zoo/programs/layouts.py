"""Activations change between two orders in memory around each layer."""

# expect: layout-conversion
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(channels) for _ in range(6)])
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        for norm in self.norms:
            x = norm(x.permute(0, 2, 3, 1).contiguous())  # here
            x = x.permute(0, 3, 1, 2).contiguous() * self.scale  # here
        return x


torch.set_num_threads(1)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
images = torch.randn(8, 24, 28, 28)
for _ in range(45):
    optimizer.zero_grad()
    model(images).sum().backward()
    optimizer.step()
