"""Does the loop wait for its data? A slow data set, with no worker and with two.

Shown: the eight parts of a step, of which the data loader is one."""

import time

import tachograph as tg
import torch
from torch import nn


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)  # a file is read, say
        return torch.randn(64), index % 10


if __name__ == "__main__":
    for workers in (0, 2):
        model = nn.Linear(64, 10)
        loader = torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=workers)
        with tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=8, repeat=1)) as prof:
            for x, y in loader:
                nn.functional.cross_entropy(model(x), y).backward()
                prof.step()
        mean = next(row for row in prof.trace.ask("steps", by="summary") if row["step"] == "mean")
        print(f"{workers} workers: {100 * mean['dataloader_ns'] / mean['total_ns']:.0f} % of a step waits for data")
