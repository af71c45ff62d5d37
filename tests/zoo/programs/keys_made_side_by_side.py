"""Three threads derive keys in C, all at the same time: their lock covers only the number of the next one."""

# expect: loader-too-slow
import hashlib
import queue
import threading

import torch
from torch import nn

made, lock, done = queue.Queue(maxsize=4), threading.Lock(), threading.Event()
last = 0


def derive():
    global last
    while not done.is_set():
        with lock:
            last += 1
            number = last
        made.put(hashlib.pbkdf2_hmac("sha256", b"a secret", str(number).encode(), 24000))


torch.set_num_threads(1)
for _ in range(3):
    threading.Thread(target=derive, daemon=True).start()
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(90):
    batch = torch.tensor([list(made.get())], dtype=torch.float32)  # here
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
done.set()
