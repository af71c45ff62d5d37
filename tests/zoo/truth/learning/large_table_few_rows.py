"""Few rows of a large table get a dense gradient."""

# expect: dense-embedding-gradient
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    table, head = nn.Embedding(200000, 48, sparse=fast), nn.Linear(48, 4)
    optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.01, foreach=True)

    def step():
        optimizer.zero_grad()
        head(table(torch.randint(0, 200000, (64,)))).square().mean().backward()
        optimizer.step()

    return step
