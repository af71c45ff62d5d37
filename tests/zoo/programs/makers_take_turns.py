"""Three threads make batches, one at a time under the lock of a shared generator, and training waits for them."""

# expect: host-waits, slow-python-transform
import queue
import random
import threading

import torch
from torch import nn

lock, made = threading.Lock(), queue.Queue(2)
numbers = random.Random(5)


def make(count):
    for _ in range(count):
        with lock:  # here
            rows = [[numbers.random() for _ in range(100)] for _ in range(900)]  # here
        made.put(rows[:40])


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(100, 150), nn.Tanh(), nn.Linear(150, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(3):
    threading.Thread(target=make, args=(80,), daemon=True).start()
for _ in range(240):
    batch = torch.tensor(made.get())  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
