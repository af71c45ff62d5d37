"""Eleven steps, of which a schedule records three; one file for TensorBoard, then the twenty largest rows."""

import shim
import torch
import tachograph as tg

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


with tg.profile(
    activities=[tg.ProfilerActivity.CPU, tg.ProfilerActivity.CUDA],
    schedule=tg.schedule(wait=1, warmup=2, active=3, repeat=1),
    on_trace_ready=tg.tensorboard_trace_handler("./log"),
    record_shapes=True,
    with_stack=True,
) as prof:
    for step in range(11):
        train_step(torch.randn(8, 16))
        prof.step()
print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=20))
