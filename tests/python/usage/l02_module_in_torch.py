"""Ours in the place of torch's modules: what is imported from there, and what torch itself looks up there, works as
before."""

import shim
import sys
import torch
import tachograph.autograd.profiler
import tachograph.profiler

sys.modules["torch.profiler"] = torch.profiler = tachograph.profiler
sys.modules["torch.autograd.profiler"] = torch.autograd.profiler = tachograph.autograd.profiler

from torch.autograd.profiler import profile as older, record_function
from torch.profiler import profile, schedule

print(
    torch.profiler.profiler.profile is not profile,
    torch.profiler._utils.__name__,
    torch.autograd.profiler._is_profiler_enabled,
)
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)


def step(x):
    with record_function("forward"):
        loss = layer(x).sum()
    loss.backward()
    optimizer.step()


with profile(schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as prof:
    for _ in range(3):
        step(torch.ones(2, 4))
        prof.step()
print(prof.key_averages().table(row_limit=100))
with older(record_shapes=True) as prof:
    step(torch.ones(2, 4))
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=100))
print(hasattr(torch.profiler, "no_such_name"))
