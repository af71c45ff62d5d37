"""A small data set is read by two workers; an epoch has eight batches, and each has workers of its own."""

# expect: loader-too-slow, periodic-stall
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    """Measured signals with their class. A worker makes its filters when it starts."""

    def __init__(self, count):
        self.signals = np.random.default_rng(1).standard_normal((count, 512), dtype=np.float32)
        self.filters = None

    def prepare(self):
        waves = np.arange(1, 65)[:, None] * np.arange(512)[None, :]
        self.filters = [np.cos(waves * np.pi / (512 + k)).astype(np.float32) for k in range(12)]

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, i):
        if self.filters is None:
            self.prepare()
        return torch.from_numpy(self.filters[i % 12] @ self.signals[i]), i % 10


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU(), nn.Linear(384, 10))

    def forward(self, x):
        return self.layers(x)


def main():
    loader = DataLoader(Signals(256), batch_size=32, shuffle=True, num_workers=2)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    for _ in range(16):
        for signals, classes in loader:  # here
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(signals), classes).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
