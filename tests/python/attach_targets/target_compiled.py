"""torch.compile, up to the graphs of forward and backward: no C++ is compiled, which would take most of the time."""

import time

from target_state import finish, mark

mark("begins")
import torch

mark("torch")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
compiled = torch.compile(model, backend="aot_eager")
x = torch.randn(4, 8)
mark("compiles")
total = 0.0
for i in range(100):
    loss = compiled(x).pow(2).mean()
    loss.backward()
    total += loss.item()
    if i == 0:
        mark("works")
    if i == 50:
        x = torch.randn(6, 8)  # another shape: it is compiled again
    time.sleep(0.005)
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]  # none is compiled again because of us
finish(total, [p.grad.sum().item() for p in model.parameters()], graphs)
