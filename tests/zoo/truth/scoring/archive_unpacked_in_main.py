"""Samples are unpacked in the main process, while the other core is idle."""

# expect: loader-in-main-process
# clock: wall
import zlib

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    def __init__(self):
        numbers = numpy.random.default_rng(7)
        self.packed = [zlib.compress(numbers.integers(0, 40, 200000, dtype=numpy.uint8).tobytes()) for _ in range(32)]

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        image = numpy.frombuffer(zlib.decompress(self.packed[i % 32]), dtype=numpy.uint8)
        return torch.from_numpy(image[: 3 * 64 * 64].reshape(3, 64, 64) / numpy.float32(40))


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(24, 48, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(48 * 14 * 14, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    batches = iter(DataLoader(Archive(), batch_size=24, num_workers=1 if fast else 0))

    def step():
        batch = next(batches)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
