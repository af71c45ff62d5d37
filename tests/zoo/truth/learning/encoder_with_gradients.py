"""An encoder that no optimizer updates gets gradients."""

# expect: unneeded-gradient
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    encoder = nn.Sequential(*[layer for _ in range(5) for layer in (nn.Linear(256, 256), nn.ReLU())])
    head = nn.Linear(256, 10)
    encoder.requires_grad_(not fast)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        head(encoder(torch.randn(96, 256))).square().mean().backward()
        optimizer.step()

    return step
