"""Recordings of an accelerometer lie in compressed files of 192 each. For every single one that is asked for, a worker
unpacks the whole file again."""

# expect: loader-too-slow, repeated-file-load
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

IN_A_SHARD, SHARDS, AXES, LENGTH = 192, 6, 3, 512


def write_shards(folder):
    numbers = np.random.default_rng(4)
    for shard in range(SHARDS):
        walks = numbers.integers(-3, 4, (IN_A_SHARD, AXES, LENGTH)).cumsum(2).astype(np.int16)
        np.savez_compressed(os.path.join(folder, f"shard{shard}.npz"), walks=walks, kinds=walks[:, 0, -1] > 0)


class Recordings(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return IN_A_SHARD * SHARDS

    def __getitem__(self, i):
        shard = np.load(os.path.join(self.folder, f"shard{i // IN_A_SHARD}.npz"))
        walk = shard["walks"][i % IN_A_SHARD]  # here
        kind = shard["kinds"][i % IN_A_SHARD]  # here
        return torch.from_numpy(walk.astype(np.float32) / 64), int(kind)


class Detector(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(AXES, width, 9, stride=2, padding=4), nn.ReLU(),
            nn.Conv1d(width, width, 9, stride=2, padding=4), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 9, stride=2, padding=4), nn.ReLU(),
        )  # fmt: skip
        self.choice = nn.Linear(2 * width, 2)

    def forward(self, walks):
        return self.choice(self.body(walks).mean(2))


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder)
        model = Detector()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
        for walks, kinds in DataLoader(Recordings(folder), batch_size=24, shuffle=True, num_workers=2):  # here
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(walks), kinds).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
