"""Activations are widened for each layer's scale and narrowed again."""

# expect: dtype-promotion
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(160)) for _ in range(5)])

    def forward(self, x):
        for scale in self.scales:
            wide = x.double()  # here
            x = (wide / (1e-6 + wide.square().mean(1, keepdim=True).sqrt())).float() * scale  # here
        return x


torch.set_num_threads(1)
model = Scaled()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(600, 160)).sum().backward()
    optimizer.step()
