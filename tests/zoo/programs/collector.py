"""The garbage collector is called in every step, over a large heap."""

# expect: gc-pressure
import gc

import torch
from torch import nn

index = [{"id": i, "tags": [i, i + 1]} for i in range(60000)]


def tidy():
    gc.collect()  # here


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(70, 140), nn.ReLU(), nn.Linear(140, 7))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(50, 70)).square().mean().backward()
    optimizer.step()
    tidy()
