"""The same mask of distances is made in every step."""

# expect: loop-invariant-recompute
import torch
from torch import nn


def make_mask(n):
    at = torch.arange(n)
    far = (at[:, None] - at[None, :]).abs().float()
    return torch.exp(-far / 20) * (far < 60)


def make(fast):
    torch.set_num_threads(1)
    model = nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    kept = make_mask(1000)

    def step():
        mask = kept if fast else make_mask(1000)
        optimizer.zero_grad()
        model(mask @ torch.randn(1000, 32)).square().mean().backward()
        optimizer.step()

    return step
