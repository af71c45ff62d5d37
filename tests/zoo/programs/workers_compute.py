"""Two worker processes make each sample in a Python loop, and the training waits for them."""

# expect: loader-too-slow
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Parsed(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        value = float(i)
        for k in range(30000):
            value = (value * 1.0001 + k) % 7.0
        return torch.full((96,), value)


torch.set_num_threads(1)
model = nn.Linear(96, 96)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
for batch in DataLoader(Parsed(), batch_size=8, num_workers=2):  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
