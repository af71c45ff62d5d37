"""A table of class weights is parsed from a JSON file in every step."""

# expect: repeated-file-load
import json
import os
import tempfile

import torch
from torch import nn

handle, path = tempfile.mkstemp(suffix=".json")
with os.fdopen(handle, "w") as file:
    json.dump({f"class {i}": [i % 5, i % 7, i % 11] for i in range(9000)}, file)

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for step in range(50):
    with open(path) as file:  # here
        weights = json.load(file)[f"class {step}"]  # here
    optimizer.zero_grad()
    (model(torch.randn(30, 64)) * torch.tensor(weights)).square().mean().backward()
    optimizer.step()
os.unlink(path)
