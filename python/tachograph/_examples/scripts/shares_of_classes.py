"""A residual network: what share of the time is convolution, what normalisation, what the rest?

Shown: shares by class, which add up to 1, and FLOPs an operator."""

import tachograph as tg
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(4)))
images = torch.randn(4, 3, 32, 32)
model(images).mean().backward()  # the first call does more than the others
with tg.profile(record_shapes=True, with_flops=True) as prof:
    model(images).mean().backward()

for kind, share in sorted(prof.by_class().items(), key=lambda item: -item[1]):
    print(f"{kind:12} {100 * share:5.1f} %")
for row in prof.trace.ask("ops", where="flops > 0", sort="flops", limit=3):
    print(f"{row['name']:28} {row['calls']:3} calls, {row['flops'] / 1e9:.2f} GFLOP")
