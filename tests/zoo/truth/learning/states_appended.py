"""States are appended to a tensor that grows."""

# expect: quadratic-concat
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    head = nn.Linear(12000, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01, foreach=True)

    def step():
        states = [torch.randn(4, 12000)]
        seen = states[0]
        for _ in range(40):
            states.append(states[-1][-1:].roll(1, 1))
            seen = seen if fast else torch.cat([seen, states[-1]])
        seen = torch.cat(states) if fast else seen
        optimizer.zero_grad()
        head(seen).square().mean().backward()
        optimizer.step()

    return step
