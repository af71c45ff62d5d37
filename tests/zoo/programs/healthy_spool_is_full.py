"""Workers take batches from a spool folder that was filled before, and the model has long to work on each."""

# expect: nothing
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES = 70


class Spool(IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        worker = get_worker_info()
        for number in range(worker.id, FILES, worker.num_workers):
            yield torch.load(os.path.join(self.folder, f"{number}.pt"))


def main():
    folder = tempfile.mkdtemp()
    for number in range(FILES):
        torch.save(torch.randn(256, 512), os.path.join(folder, f"{number}.pt"))
    model = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(512, 512), nn.ReLU())])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    for rows in DataLoader(Spool(folder), batch_size=None, num_workers=1, prefetch_factor=4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows), rows).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
