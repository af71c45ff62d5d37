"""Two threads read samples in Python at the same time: their lock covers only the number of the next one."""

# expect: loader-too-slow
import queue
import threading
import time

import torch
from torch import nn

ready, numbers, done = queue.Queue(maxsize=4), threading.Lock(), threading.Event()
taken = 0


def read(number):
    time.sleep(0.022)
    return [float((k + number) % 7) for k in range(96)]


def produce():
    global taken
    while not done.is_set():
        with numbers:
            taken += 1
            number = taken
        ready.put(read(number))


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
