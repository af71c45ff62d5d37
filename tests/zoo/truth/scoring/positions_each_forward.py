"""Every block works out the same table of positions in every forward pass."""

# expect: loop-invariant-recompute
import torch
from torch import nn

LENGTH, WIDTH = 512, 256


def positions():
    place = torch.arange(LENGTH, dtype=torch.float32)[:, None]
    wave = torch.arange(WIDTH)[None, :]
    angle = place / 10000.0 ** ((wave // 2 * 2).expand(LENGTH, WIDTH) / WIDTH)
    return torch.where(wave % 2 == 0, angle.sin(), angle.cos())


class Block(nn.Module):
    def __init__(self, fast):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.table = positions() if fast else None

    def forward(self, x):
        table = positions() if self.table is None else self.table
        return torch.relu(self.layer(x + table))


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[Block(fast) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    data = torch.randn(1, LENGTH, WIDTH)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step
