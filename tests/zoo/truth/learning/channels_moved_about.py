"""Channels are moved back and forth around each norm."""

# expect: layout-conversion
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    norms = nn.ModuleList([nn.LayerNorm(32) for _ in range(5)])
    optimizer = torch.optim.SGD(norms.parameters(), lr=0.01, foreach=True)
    images = torch.randn(6, 32, 24, 24)

    def step():
        optimizer.zero_grad()
        x = images.permute(0, 2, 3, 1).contiguous() if fast else images
        for norm in norms:
            x = norm(x) if fast else norm(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()
        x.sum().backward()
        optimizer.step()

    return step
