"""Time to get a batch against time to work on it."""

import shim
import time
import torch

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 32)), batch_size=8)
model = torch.nn.Linear(32, 32).cuda()


def data_seconds(count):
    began, batches = time.perf_counter(), iter(loader)
    for _ in range(count):
        next(batches)
    return (time.perf_counter() - began) / count


def compute_seconds(count):
    x = torch.randn(8, 32, device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        model(x).sum().backward()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


data, compute = data_seconds(8), compute_seconds(20)
print(f"ratio {data / compute:.3f}:", "the loader holds it up" if data > compute else "the computation holds it up")
