"""A complete investigation: measure, record, find, change, and show that it was worth it.

Shown: findings with the line and an estimate, and a comparison that knows the noise."""

import tachograph as tg
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(256, 64)


def slow(batch):
    return torch.stack([(row - row.mean()) / row.std() for row in batch])  # one sample after the other


def fast(batch):
    return (batch - batch.mean(1, keepdim=True)) / batch.std(1, keepdim=True)


def record(prepare):
    with tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=8, repeat=1), with_stack=True) as prof:
        for _ in range(11):
            optimizer.zero_grad()
            model(prepare(images)).sum().backward()
            optimizer.step()
            prof.step()
    return prof.trace


before, after = record(slow), record(fast)
for finding in before.ask("findings", limit=3):
    print(f"{finding['cause']}, {finding['share_pct']:.0f} %: {finding['where']}")
    print("  ", finding["evidence"])
    print("   →", finding["advice"])
for row in tg.diff(before, after, by="step").to_dicts():
    if row["quantity"] == "p50":
        print(f"a step: {row['a'] / 1e6:.2f} ms before, {row['b'] / 1e6:.2f} ms after: {row['verdict']}")
