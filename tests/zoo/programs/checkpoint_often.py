"""All weights are written to disk after every fourth step."""

# expect: sync-checkpoint, periodic-stall
import os
import tempfile

import torch
from torch import nn

handle, path = tempfile.mkstemp()
os.close(handle)
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(12000, 96), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 4))
optimizer = torch.optim.SGD(model[1:].parameters(), lr=0.01, foreach=True)
for step in range(60):
    optimizer.zero_grad()
    with torch.no_grad():
        rows = model[0](torch.randint(0, 12000, (64,)))
    model[1:](rows).square().mean().backward()
    optimizer.step()
    if step % 4 == 3:
        torch.save(model.state_dict(), path)  # here
        with open(path, "rb") as file:
            os.fsync(file.fileno())  # here
os.unlink(path)
