"""Samples that take time to fetch are fetched by the loop."""

# expect: loader-in-main-process
# clock: wall
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 8 * 3000

    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.full((64,), float(i % 7))


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 900), nn.ReLU(), nn.Linear(900, 900), nn.ReLU(), nn.Linear(900, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    batches = iter(DataLoader(Remote(), batch_size=8, num_workers=2 if fast else 0))

    def step():
        batch = next(batches)
        optimizer.zero_grad()
        model(batch.repeat(12, 1)).square().mean().backward()
        optimizer.step()

    return step
