"""The same profile by time on the device and by memory on the device."""

import shim
import torch
import tachograph as tg

layer = torch.nn.Linear(64, 64).cuda()
with tg.profile(profile_memory=True, record_shapes=True) as prof:
    for _ in range(4):
        layer(torch.randn(16, 64, device="cuda")).sum().backward()
print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
print(prof.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=10))
