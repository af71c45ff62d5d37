#!/usr/bin/env python3
"""Train a small CNN on made-up pictures, with a mistake in it that costs most of the step.

    python examples/train_cnn.py            train, print the time a step
    tachograph run examples/train_cnn.py    the same, recorded: the report names the mistake
    python examples/train_cnn.py --fixed    the same training without the mistake

The mistake is where many real ones are: every sample is prepared one pixel row at a time in Python, in the process that
trains (num_workers=0), so the model waits. `--fixed` prepares whole pictures with array operations."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Random pictures of ten classes; class c is brightest in its c-th band of rows, so there is something to learn."""

    def __init__(self, count, fixed):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, 10, (count,), generator=generator)
        self.pictures = torch.rand(count, 3, 40, 40, generator=generator)
        for picture, label in zip(self.pictures, self.labels):
            picture[:, 4 * label : 4 * label + 4] += 0.5
        self.normalise = normalise_picture if fixed else normalise_by_row

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.normalise(self.pictures[index]), self.labels[index]


def normalise_by_row(picture):
    """Scale to the range −1…1, one row of one channel at a time: a few hundred tiny operations for each picture."""
    low, high = float(picture.min()), float(picture.max())
    rows = []
    for channel in picture:
        for row in channel:
            rows.append([2 * (value - low) / (high - low) - 1 for value in row.tolist()])
    return torch.tensor(rows).view(picture.shape)


def normalise_picture(picture):
    low, high = picture.min(), picture.max()
    return 2 * (picture - low) / (high - low) - 1


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(5),
            nn.Flatten(),
            nn.Linear(800, 10),
        )


def train_step(net, optimizer, pictures, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(pictures), labels)
    loss.backward()
    optimizer.step()
    return loss


def train(steps, fixed):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so that the split of a step is the same on a busy machine
    batch = 32
    loader = DataLoader(Pictures(steps * batch, fixed), batch_size=batch, shuffle=True, num_workers=0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    ends = [time.perf_counter()]
    for pictures, labels in loader:
        loss = train_step(net, optimizer, pictures, labels)
        ends.append(time.perf_counter())
    median = statistics.median(after - before for before, after in zip(ends, ends[1:]))
    print(f"{steps} steps, {1000 * median:.1f} ms a step (median), last loss {loss.item():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--fixed", action="store_true", help="prepare samples the fast way")
    options = parser.parse_args()
    train(max(1, options.steps), options.fixed)


if __name__ == "__main__":
    main()
