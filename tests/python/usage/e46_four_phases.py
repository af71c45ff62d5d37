"""From a measured baseline to a profile, in four parts, with a result dictionary."""

import shim
import json
import time
import torch
import tachograph as tg

model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(200, 32)), batch_size=8)
result = {}


def train_step(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


print("=== 1 baseline ===")
began = time.perf_counter()
for (x,) in loader:
    train_step(x)
result["samples_per_second"] = 200 / (time.perf_counter() - began)
result["batches"] = len(loader)
print("=== 2 category ===")
began = time.perf_counter()
for _ in loader:
    pass
result["data_seconds"] = time.perf_counter() - began
print("=== 3 profile ===")
with tg.profile(
    schedule=tg.schedule(wait=1, warmup=2, active=3, repeat=1),
    on_trace_ready=tg.tensorboard_trace_handler("./log"),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for number, (x,) in enumerate(loader):
        train_step(x)
        prof.step()
        if number >= 10:
            break
rows = prof.key_averages()
prof.export_chrome_trace("trace.json")
print("=== 4 result ===")
result["operators"] = len(rows)
result["top"] = max(rows, key=lambda row: row.self_cpu_time_total).key
result["calls"] = sum(row.count for row in rows)
result["cpu_ms"] = rows.self_cpu_time_total / 1e3
print(json.dumps(result))
