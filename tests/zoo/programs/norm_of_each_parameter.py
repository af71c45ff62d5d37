"""Norms of weights and gradients are worked out parameter by parameter."""

# expect: per-parameter-loop
import torch
from torch import nn


def health(parameters):
    worst = torch.zeros(())
    for p in parameters:
        ratio = p.grad.norm() / (p.detach().norm() + 1e-6)  # here
        worst = torch.maximum(worst, ratio.clamp(max=10.0))  # here
    return worst


torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(14, 14) for _ in range(70)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(4, 14)).square().mean().backward()
    worst = health(list(model.parameters()))
    optimizer.step()
