"""Each step pairs the words of a document in Python; few documents are long, and these take many times as long."""

# expect: slow-python-transform
import random

import torch
from torch import nn

random.seed(8)
documents = [[random.randrange(500) for _ in range(20000 if k % 7 not in (1, 4) else 120000)] for k in range(70)]
random.shuffle(documents)


def pairs(words):
    counts = [0.0] * 500
    for left, right in zip(words, words[1:], strict=False):  # here
        counts[(left * 31 + right) % 500] += 1.0 / len(words)  # here
    return counts


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(500, 64), nn.Tanh(), nn.Linear(64, 500))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
for words in documents:
    row = torch.tensor([pairs(words)])  # here
    optimizer.zero_grad()
    (model(row) - row).square().mean().backward()
    optimizer.step()
