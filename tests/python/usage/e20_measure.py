"""Throughput and latency of a model."""

import shim
import torch
import tachograph as tg

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
with torch.no_grad():
    rate = tg.throughput(model, [torch.randn(16, 64) for _ in range(20)])
    delay = tg.latency(model, torch.randn(1, 64), iterations=30)
print("samples", rate)
print(f"latency p50 {delay.p50} p95 {delay.p95} p99 {delay.p99}")
