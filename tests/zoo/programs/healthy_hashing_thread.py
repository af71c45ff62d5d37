"""A thread hashes large blocks, for which Python lets go of its lock; the loop trains meanwhile."""

# expect: nothing
import hashlib
import threading

import torch
from torch import nn

block, done = bytes(8 << 20), threading.Event()


def hash_blocks():
    while not done.is_set():
        hashlib.sha256(block).hexdigest()


torch.set_num_threads(1)
threading.Thread(target=hash_blocks, daemon=True).start()
model = nn.Sequential(nn.Linear(100, 150), nn.ReLU(), nn.Linear(150, 100))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
batch = torch.randn(40, 100)
for _ in range(80):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
done.set()
