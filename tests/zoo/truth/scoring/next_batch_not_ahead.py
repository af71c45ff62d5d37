"""The next batch is asked for when it is needed, and the answer takes a while."""

# expect: host-waits
# clock: wall
import concurrent.futures
import time

import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    batches = torch.randn(4, 480, 512)
    asked = concurrent.futures.ThreadPoolExecutor(1)

    def fetch(number):
        time.sleep(0.01)
        return batches[number % 4]

    number, coming = 0, asked.submit(fetch, 0)

    def step():
        nonlocal number, coming
        if not fast:
            coming = asked.submit(fetch, number)
        batch = coming.result()
        number += 1
        if fast:
            coming = asked.submit(fetch, number)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
