"""A thread adds up figures in Python for some milliseconds, five times a second, while the model learns."""

# expect: nothing
import threading

import torch
from torch import nn

done, totals = threading.Event(), []


def report():
    while not done.wait(0.2):
        totals.append(sum(k * k for k in range(60000)))


threading.Thread(target=report, daemon=True).start()
model = nn.Sequential(nn.Linear(600, 800), nn.ReLU(), nn.Linear(800, 600))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
batch = torch.randn(400, 600)
for _ in range(80):
    optimizer.zero_grad()
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
done.set()
