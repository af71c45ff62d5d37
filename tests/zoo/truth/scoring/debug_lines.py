"""A line about each sample goes to the log file in every step, at a level that is not shown."""

# expect: sync-logging, slow-python-transform
import logging
import tempfile

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 300), nn.ReLU(), nn.Linear(300, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    data = torch.randn(800, 300)
    log = logging.getLogger(f"train.{'fast' if fast else 'slow'}")
    log.propagate = False
    log.setLevel(logging.INFO if fast else logging.DEBUG)
    log.addHandler(logging.StreamHandler(tempfile.TemporaryFile("w")))

    def step():
        optimizer.zero_grad()
        losses = model(data).square().flatten()
        losses.mean().backward()
        optimizer.step()
        for number, loss in enumerate(losses.tolist()):
            log.debug("sample %d has a loss of %.5f", number, loss)

    return step
