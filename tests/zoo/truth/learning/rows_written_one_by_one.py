"""A table of positions is written row by row."""

# expect: tensor-index-loop
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    at = torch.randperm(900)

    def step():
        source = torch.randn(900, 32)
        table = torch.zeros(900, 32)
        if fast:
            table[at] = source
        else:
            for i in range(900):
                table[at[i]] = source[i]
        optimizer.zero_grad()
        model(table).square().mean().backward()
        optimizer.step()

    return step
