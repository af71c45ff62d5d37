"""Samples are decoded and sorted in the process that trains."""

# expect: loader-in-main-process
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self):
        self.raw = np.random.default_rng(1).normal(size=(1024, 3000))

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, i):
        peaks = np.sort(np.abs(np.fft.rfft(self.raw[i])))[-64:]  # here
        return torch.from_numpy(peaks.astype(np.float32))


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(4):
    for batch in DataLoader(Spectra(), batch_size=64):  # here
        optimizer.zero_grad()
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
