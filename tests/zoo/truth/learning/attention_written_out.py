"""Attention is written out."""

# expect: handwritten-attention
import torch
import torch.nn.functional as F
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    project = nn.Linear(64, 192)
    optimizer = torch.optim.SGD(project.parameters(), lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        q, k, v = project(torch.randn(4, 2, 220, 64)).chunk(3, -1)
        out = F.scaled_dot_product_attention(q, k, v) if fast else torch.softmax(q @ k.transpose(-2, -1) / 8, -1) @ v
        out.square().mean().backward()
        optimizer.step()

    return step
