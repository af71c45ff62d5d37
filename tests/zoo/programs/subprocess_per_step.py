"""A program is started in every step, and its answer waited for."""

# expect: host-waits
import subprocess

import torch
from torch import nn


def revision():
    return subprocess.run(["/bin/sh", "-c", "sleep 0.01; echo 7"], capture_output=True, check=True).stdout  # here


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(110, 110), nn.ReLU(), nn.Linear(110, 11))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    weight = int(revision())
    optimizer.zero_grad()
    (model(torch.randn(20, 110)).square().mean() * weight).backward()
    optimizer.step()
