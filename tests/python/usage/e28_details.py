"""Three tables of one profile, each sorted its own way, and the trace."""

import shim
import torch
import tachograph as tg

model = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True)
with tg.profile(
    activities=[tg.ProfilerActivity.CPU, tg.ProfilerActivity.CUDA],
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    model(torch.randn(2, 8, 32)).sum().backward()
averages = prof.key_averages()
print(averages.table(sort_by="self_cuda_time_total", row_limit=15))
print(averages.table(sort_by="self_cpu_time_total", row_limit=15))
print(prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_memory_usage", row_limit=15))
prof.export_chrome_trace("detailed_trace.json")
