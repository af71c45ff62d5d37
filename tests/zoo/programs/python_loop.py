"""A score of edit distances is worked out in Python between two training steps."""

# expect: slow-python-transform
import torch
from torch import nn


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):  # here
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):  # here
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))  # here
    return row[-1]


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 20))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
words = ["".join(chr(97 + (i * k) % 26) for k in range(100)) for i in range(1, 60)]
for step in range(50):
    weight = distance(words[step % 59], words[(7 * step) % 59])
    optimizer.zero_grad()
    (model(torch.randn(32, 256)).square().mean() * weight).backward()
    optimizer.step()
