"""Activations are rounded by a cast to a narrower type and back, behind each layer."""

# expect: casts-back-and-forth
import torch
from torch import nn


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(256)) for _ in range(6)])

    def forward(self, x):
        for scale in self.scales:
            x = (x * scale).bfloat16().float()  # here
        return x


model = Rounded()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(2000, 256)).sum().backward()
    optimizer.step()
