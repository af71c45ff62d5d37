"""One worker reads record after record from a slow disk, and the loop, which has little to do, waits for it."""

# expect: loader-too-slow
# clock: wall
# turn: 12
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Disk(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        time.sleep(0.006)
        return torch.full((64,), float(i % 5))


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    batches = iter(DataLoader(Disk(), batch_size=8, num_workers=2 if fast else 1))

    def step():
        batch = next(batches)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
