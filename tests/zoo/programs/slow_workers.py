"""One worker process makes the batches, and the loop is faster than it."""

# expect: loader-too-slow
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((96,), float(i % 7))


torch.set_num_threads(1)
model = nn.Linear(96, 96)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
for batch in DataLoader(Remote(), batch_size=8, num_workers=1):  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
