"""A thread makes the batches, slower than the loop takes them from its queue."""

# expect: loader-too-slow
import queue
import threading
import time

import torch
from torch import nn

ready = queue.Queue(maxsize=2)


def produce():
    for _ in range(60):
        time.sleep(0.012)
        ready.put(torch.randn(20, 140))


torch.set_num_threads(1)
threading.Thread(target=produce, daemon=True).start()
model = nn.Sequential(nn.Linear(140, 70), nn.ReLU(), nn.Linear(70, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(55):
    batch = ready.get()  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
