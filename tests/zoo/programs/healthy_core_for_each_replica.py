"""One thread for each product, as two copies of the model learn at once and every core has work."""

# expect: nothing
import threading

import torch
from torch import nn

torch.set_num_threads(1)


def replica():
    model = nn.Sequential(nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 640))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)


def train(model, optimizer, data, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


data = torch.randn(384, 640)
first, second = replica(), replica()
other = threading.Thread(target=train, args=(*second, data, 90))
other.start()
train(*first, data, 90)
other.join()
