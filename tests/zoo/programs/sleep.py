"""The loop polls an outside condition and sleeps in every step."""

# expect: host-waits
import time

import torch
from torch import nn


def wait_until_ready(step):
    for _ in range(3):
        time.sleep(0.004)  # here


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for step in range(50):
    wait_until_ready(step)
    optimizer.zero_grad()
    model(torch.randn(24, 128)).square().mean().backward()
    optimizer.step()
