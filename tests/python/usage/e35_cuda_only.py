"""A profile of the device only, on a machine without one."""

import shim
import torch
from tachograph import profile, ProfilerActivity

model = torch.nn.Conv2d(3, 4, 3).cuda()
with profile(activities=[ProfilerActivity.CUDA]) as prof:
    model(torch.randn(1, 3, 8, 8).cuda())
print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
