"""One worker asks a slow store for sample after sample, where four can ask at once."""

# expect: loader-too-slow
# clock: wall
# turn: 12
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Store(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.full((400,), float(i % 11))


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(400, 1200), nn.ReLU(), nn.Linear(1200, 400))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    batches = iter(DataLoader(Store(), batch_size=10, num_workers=4 if fast else 1))

    def step():
        batch = next(batches).repeat(24, 1)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
