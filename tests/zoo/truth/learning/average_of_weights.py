"""A running average of the weights is kept parameter by parameter."""

# expect: per-parameter-loop
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(20, 20) for _ in range(90)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    average = [p.detach().clone() for p in model.parameters()]

    def step():
        optimizer.zero_grad()
        model(torch.randn(32, 20)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            if fast:
                torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.01)
            else:
                for old, new in zip(average, model.parameters()):
                    old.mul_(0.99)
                    old.add_(new * 0.01)

    return step
