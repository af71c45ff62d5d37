"""Five times forward and backward of one large layer."""

import shim
import torch
from tachograph import profile, ProfilerActivity

model = torch.nn.Linear(4096, 4096).cuda()
x = torch.randn(64, 4096, device="cuda")
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, profile_memory=True, with_stack=True
) as prof:
    for _ in range(5):
        model(x).sum().backward()
for row in prof.key_averages():
    print(row.key, row.count)
print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
