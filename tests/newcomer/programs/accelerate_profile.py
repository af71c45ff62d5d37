"""accelerate's own option: ProfileKwargs and accelerator.profile()."""

import json
import time

import one_window

name = one_window.give_to_libraries()

import torch
from accelerate import Accelerator, ProfileKwargs
from torch import nn

torch.manual_seed(0)
asked = ProfileKwargs(
    activities=["cpu"], schedule_option={"wait": 2, "warmup": 1, "active": 3, "repeat": 1}, record_shapes=True
)
accelerator = Accelerator(cpu=True, kwargs_handlers=[asked])
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
x, y = torch.randn(4, 16), torch.randint(0, 4, (4,))


def train(prof=None):
    for _ in range(10):
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        if prof:
            prof.step()


if name:
    began = time.perf_counter()
    with accelerator.profile() as prof:
        train(prof)
    one_window.say(prof.key_averages(group_by_input_shape=True), began)
else:
    train()
    print(json.dumps({"done": True}))
