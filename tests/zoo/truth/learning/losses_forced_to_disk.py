"""Each loss is forced to disk."""

# expect: sync-logging
# clock: wall
import os
import tempfile

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(200, 400), nn.ReLU(), nn.Linear(400, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    log, losses = tempfile.TemporaryFile("w", dir="."), []

    def step():
        optimizer.zero_grad()
        loss = model(torch.randn(128, 200)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not fast or len(losses) % 20 == 0:
            log.write("".join(f"{value}\n" for value in losses[-1 if not fast else -20 :]))
            log.flush()
            os.fsync(log.fileno())

    return step
