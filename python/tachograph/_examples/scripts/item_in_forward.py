"""A forward pass that reads a number out of each layer: find the line, take it out, compare.

Shown: a question about what was recorded, with the line of the program, before and after."""

import tachograph as tg
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, reads):
        super().__init__()
        self.layers, self.reads = nn.ModuleList(nn.Linear(64, 64) for _ in range(10)), reads

    def forward(self, x):
        largest = 0.0
        for layer in self.layers:
            x = layer(x).relu()
            if self.reads:
                largest = max(largest, x.max().item())  # waits for the device, each time
        return x


for reads in (True, False):
    model, x = Net(reads), torch.randn(8, 64)
    with tg.profile(record_shapes=True, with_stack=True) as prof:
        for _ in range(10):
            model(x)
    items = [row for row in prof.trace.ask("ops", by="stack:1") if row["name"] == "aten::item"]
    print("with reads" if reads else "without", sum(row["calls"] for row in items), "calls of item")
    for row in items:
        print("   at", row["group"])
