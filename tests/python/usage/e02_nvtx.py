"""NVTX ranges around one's own code: they are on the timeline and in the tables."""

import shim
import torch
import tachograph as tg

shim.nvtx()


def step(x):
    torch.cuda.nvtx.range_push("prepare")
    x = x * 2
    torch.cuda.nvtx.range_push("cut off")
    x = x.relu()
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_pop()
    with torch.cuda.nvtx.range("power {}", 2):
        return x @ x


with tg.profile() as prof:
    for _ in range(3):
        step(torch.ones(8, 8))
prof.export_chrome_trace("trace.json")
print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=50))
