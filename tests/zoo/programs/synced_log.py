"""Every value of a step's log is forced to disk by itself."""

# expect: sync-logging
import os
import tempfile

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(50, 120), nn.ReLU(), nn.Linear(120, 12))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
log = tempfile.NamedTemporaryFile("w")


def report(step, values):
    for k, value in enumerate(values):
        log.write(f"{step} {k} {value}\n")
        log.flush()  # here
        os.fsync(log.fileno())  # here


for step in range(50):
    optimizer.zero_grad()
    losses = model(torch.randn(28, 50)).square().mean(0)
    losses.sum().backward()
    optimizer.step()
    report(step, losses.tolist())
log.close()
