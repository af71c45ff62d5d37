"""A Chrome trace and folded stacks, with only with_stack."""

import shim
import torch
import tachograph as tg


def work():
    return torch.randn(32, 32) @ torch.randn(32, 32)


with tg.profile(with_stack=True) as prof:
    for _ in range(5):
        work()
prof.export_chrome_trace("trace.json")
prof.export_stacks("stacks.txt", "self_cuda_time_total")
prof.export_stacks("cpu_stacks.txt")
