"""A file of settings is read and parsed in each step."""

# expect: repeated-file-load
import json
import pathlib
import tempfile

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / "settings.json"
    path.write_text(json.dumps({f"key {i}": [i, i / 3, str(i)] for i in range(6000)}))
    kept = json.loads(path.read_text())

    def step():
        settings = kept if fast else json.loads(path.read_text())
        optimizer.zero_grad()
        (model(torch.randn(128, 100)) - settings["key 3"][1]).square().mean().backward()
        optimizer.step()
        return folder

    return step
