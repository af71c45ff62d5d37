"""Two threads read samples in Python under one lock, so that only one of them works at any time."""

# expect: pipeline-lock-contention
import queue
import threading
import time

import torch
from torch import nn

ready, disk, done = queue.Queue(maxsize=4), threading.Lock(), threading.Event()


def read():
    time.sleep(0.009)
    return [float(k % 7) for k in range(96)]


def produce():
    while not done.is_set():
        with disk:  # here
            sample = read()
        ready.put(sample)


torch.set_num_threads(1)
for _ in range(2):
    threading.Thread(target=produce, daemon=True).start()
model = nn.Linear(96, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(60):
    batch = torch.tensor([ready.get()])  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
done.set()
