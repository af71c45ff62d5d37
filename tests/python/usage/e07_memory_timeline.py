"""Memory by category over three training steps, as a page."""

import shim
import torch
import tachograph as tg

model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.Adam(model.parameters())
with tg.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(32, 128)).square().mean().backward()
        optimizer.step()
prof.export_memory_timeline("memory.html", device=shim.on_cpu("cuda:0"))
prof.export_memory_timeline("memory.json", device=shim.on_cpu("cuda:0"))
