"""Another thread holds the lock of a shared table for most of the time."""

# expect: host-waits
import threading
import time

import torch
from torch import nn

table_lock, done = threading.Lock(), threading.Event()


def refresh():
    while not done.is_set():
        with table_lock:
            time.sleep(0.012)
        time.sleep(0.001)


torch.set_num_threads(1)
threading.Thread(target=refresh, daemon=True).start()
model = nn.Sequential(nn.Linear(100, 150), nn.Tanh(), nn.Linear(150, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
table = torch.randn(40, 100)
for _ in range(50):
    with table_lock:  # here
        batch = table.clone()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
done.set()
