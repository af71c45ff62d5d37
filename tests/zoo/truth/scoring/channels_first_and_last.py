"""Sequences are turned to channels first for each layer, and back behind it."""

# expect: layout-conversion, redundant-copy
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, fast):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)
        self.fast = fast

    def forward(self, x):
        if self.fast:
            return torch.relu(x @ self.weight.T)
        turned = x.transpose(1, 2).contiguous()
        return torch.relu(self.weight @ turned).transpose(1, 2).contiguous()


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[Layer(fast) for _ in range(5)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    data = torch.randn(12, 512, 64)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step
