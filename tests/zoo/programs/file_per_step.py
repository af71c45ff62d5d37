"""The same archive of arrays is opened and unpacked in every step."""

# expect: repeated-file-load
import os
import tempfile

import numpy as np
import torch
from torch import nn

folder = tempfile.mkdtemp()
path = os.path.join(folder, "statistics.npz")
np.savez_compressed(path, mean=np.linspace(0, 1, 200000), scale=np.arange(200000) % 17)


def load_statistics():
    with np.load(path) as archive:  # here
        return float(archive["mean"].mean()), float(archive["scale"].mean())  # here


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(90, 90), nn.ReLU(), nn.Linear(90, 9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    mean, scale = load_statistics()  # here
    optimizer.zero_grad()
    ((model(torch.randn(16, 90)) - mean) / scale).square().mean().backward()
    optimizer.step()
os.unlink(path)
os.rmdir(folder)
