"""Eight threads for each core."""

# expect: thread-oversubscription
import os

import torch
from torch import nn

torch.set_num_threads(8 * (os.cpu_count() or 1))  # here
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(45):
    optimizer.zero_grad()
    model(torch.randn(512, 256)).square().mean().backward()
    optimizer.step()
