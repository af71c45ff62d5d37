"""The same lines are cleaned in Python in every step."""

# expect: slow-python-transform
import re

import torch
from torch import nn

LINES = [f"  The {i} quick, brown foxes jump over {i * 7} lazy dogs!  " for i in range(400)]


def clean(line):
    return [sum(map(ord, word)) % 500 for word in re.findall(r"[a-z]+", line.lower())]


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.EmbeddingBag(500, 64), nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 40))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    known = [clean(line) for line in LINES]

    def step():
        words = known if fast else [clean(line) for line in LINES]
        optimizer.zero_grad()
        model(torch.tensor([w[:8] for w in words])).square().mean().backward()
        optimizer.step()

    return step
