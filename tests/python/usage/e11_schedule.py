"""Wait one, warm up four, record five of eleven steps."""

import shim
import torch
import tachograph as tg

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.AdamW(model.parameters())
plan = tg.schedule(wait=1, warmup=4, active=5, repeat=1)
print(plan.describe(11))
with tg.profile(schedule=plan, on_trace_ready=tg.tensorboard_trace_handler("./log/course")) as prof:
    for step in range(11):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()
        prof.step()
prof.export_chrome_trace("trace.json")  # E12: although the handler has saved it
