"""A handler of one's own, as the documentation's recipe has it: a table and a numbered trace for each of two cycles."""

import shim
import torch
import tachograph


def trace_handler(p):
    print(p.key_averages().table(sort_by="self_cuda_time_total", row_limit=3))
    p.export_chrome_trace(f"trace_{p.step_num}.json")


with tachograph.profile(
    activities=[tachograph.ProfilerActivity.CPU],
    schedule=tachograph.schedule(wait=1, warmup=1, active=2, repeat=2),
    on_trace_ready=trace_handler,
) as p:
    for _ in range(8):
        torch.ones(16, 16).mm(torch.ones(16, 16))
        p.step()
