"""Workers take their batches from a spool folder that another process fills, one every few hundredths of a second, and
look again and again whether the next one has come."""

# expect: loader-too-slow
import multiprocessing
import os
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES, ROWS = 160, 32


def fill(folder):
    """What a camera or a simulator would do: 25 batches a second."""
    for number in range(FILES):
        time.sleep(0.04)
        torch.save(torch.randn(ROWS, 128), os.path.join(folder, f"{number}.part"))
        os.rename(os.path.join(folder, f"{number}.part"), os.path.join(folder, f"{number}.pt"))


class Spool(IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        worker = get_worker_info()
        for number in range(worker.id, FILES, worker.num_workers):
            path = os.path.join(self.folder, f"{number}.pt")
            while not os.path.exists(path):
                time.sleep(0.005)  # here
            yield torch.load(path)
            os.remove(path)


def main():
    folder = tempfile.mkdtemp()
    multiprocessing.Process(target=fill, args=(folder,), daemon=True).start()
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    for rows in DataLoader(Spool(folder), batch_size=None, num_workers=2):  # here
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows), rows).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
