"""A model answers requests as fast as it can; the threads of its pool are idle."""

# expect: nothing
import queue
import threading

import tachograph
import torch
from torch import nn

idle = queue.Queue()


def serve_rare_requests():
    while idle.get() is not None:
        pass


for _ in range(4):
    threading.Thread(target=serve_rare_requests, daemon=True).start()
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 200)).eval()
request = torch.randn(60, 200)
with torch.inference_mode():
    for _ in range(60):
        answer = model(request)
        tachograph.step()
for _ in range(4):
    idle.put(None)
