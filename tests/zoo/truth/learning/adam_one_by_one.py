"""Adam updates sixty layers parameter by parameter."""

# expect: single-tensor-optimizer
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(24, 24) for _ in range(60)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=fast, foreach=False)

    def step():
        optimizer.zero_grad()
        model(torch.randn(32, 24)).square().mean().backward()
        optimizer.step()

    return step
