"""Totals of all rows added up, and FLOPs of each operator (E15)."""

import shim
import torch
import tachograph as tg

layer = torch.nn.Linear(4096, 4096)
x = torch.randn(64, 4096)
with tg.profile(with_flops=True) as prof:
    layer(x)
rows = prof.key_averages()
print("device us", sum(row.cuda_time_total for row in rows))
print("cpu us", sum(row.cpu_time_total for row in rows), "self", sum(row.self_cpu_time_total for row in rows))
for row in rows:
    if row.flops > 0:
        print(f"{row.key}: {row.flops / 1e9:.3f} GFLOP, {row.flops / row.cpu_time_total / 1e6:.4f} TFLOP/s")
print(rows.table(sort_by="flops", row_limit=5))
