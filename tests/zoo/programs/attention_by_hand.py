"""Attention with its matrix of scores written out."""

# expect: handwritten-attention
import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, size=48):
        super().__init__()
        self.project = nn.Linear(size, 3 * size)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        scores = torch.einsum("bid,bjd->bij", q, k) / 48**0.5  # here
        weights = scores.softmax(-1)  # here
        return torch.einsum("bij,bjd->bid", weights, v)  # here


torch.set_num_threads(1)
model = Attend()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(45):
    optimizer.zero_grad()
    model(torch.randn(4, 400, 48)).square().mean().backward()
    optimizer.step()
