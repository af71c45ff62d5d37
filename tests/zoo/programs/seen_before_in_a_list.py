"""Rows that were seen before are left out. A list has all that were seen, and is searched from the start for each row:
every step is a little longer than the one before."""

# expect: slow-python-transform
import random

import torch
from torch import nn


class Fresh:
    """Batches without the rows that came before."""

    def __init__(self, size):
        self.size, self.seen = size, []
        self.numbers = random.Random(3)

    def next(self):
        rows = []
        while len(rows) < self.size:
            number = self.numbers.randrange(10**9)
            if number in self.seen:  # here
                continue
            self.seen.append(number)
            rows.append([(number >> shift) % 7 / 7 for shift in range(0, 96, 2)])  # here
        return torch.tensor(rows)


def main():
    fresh = Fresh(64)
    model = nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 48))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    for _ in range(160):
        rows = fresh.next()  # here
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows), rows).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
