"""Two worker processes fetch samples through one connection, each when it is its turn."""

# expect: loader-too-slow
import multiprocessing
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __init__(self):
        self.turn = multiprocessing.Lock()

    def __len__(self):
        return 1200

    def __getitem__(self, i):
        with self.turn:  # here
            time.sleep(0.0015)  # here
        return torch.full((160,), float(i % 5))


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(160, 200), nn.ReLU(), nn.Linear(200, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
for batch in DataLoader(Remote(), batch_size=10, num_workers=2):  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
