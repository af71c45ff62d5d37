"""A table of angles that never changes is made again in every forward pass."""

# expect: loop-invariant-recompute
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, size=128):
        super().__init__()
        self.size, self.out = size, nn.Linear(size, size)

    def angles(self, length):
        position = torch.arange(length, dtype=torch.float32)  # here
        rate = torch.exp(torch.arange(self.size, dtype=torch.float32) * -0.07)  # here
        return torch.cos(torch.outer(position, rate)) + torch.sin(torch.outer(position, rate))  # here

    def forward(self, x):
        return self.out(x * self.angles(2048)[: x.shape[0]])


torch.set_num_threads(1)
model = Rotary()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(64, 128)).square().mean().backward()
    optimizer.step()
