"""What a finished profiler can be written as: a Chrome trace, stacks, a memory timeline; the handler has written it
once already."""

import shim
import torch
import tachograph as tg

model = torch.nn.Linear(32, 32)
with tg.profile(
    record_shapes=True, profile_memory=True, with_stack=True, on_trace_ready=tg.tensorboard_trace_handler("log")
) as prof:
    for _ in range(3):
        model(torch.randn(4, 32)).sum().backward()
prof.export_chrome_trace("trace.json")
prof.export_stacks("stacks.txt", "self_cpu_time_total")
prof.export_memory_timeline("memory.html", device="cpu")
