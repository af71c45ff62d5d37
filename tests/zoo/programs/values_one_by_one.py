"""The classes that a batch was given are read one at a time."""

# expect: per-element-item, tensor-index-loop
import torch
from torch import nn


def count_classes(guess):
    counts = [0] * 10
    for i in range(len(guess)):
        counts[int(guess[i])] += 1  # here
    return counts


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(45, 90), nn.ReLU(), nn.Linear(90, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    logits = model(torch.randn(700, 45))
    logits.logsumexp(1).mean().backward()
    optimizer.step()
    counts = count_classes(logits.argmax(1))
