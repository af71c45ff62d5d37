"""Time of the three phases of a step, from labels, in percent."""

import shim
import torch
from tachograph import profile, record_function

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile() as prof:
    for _ in range(5):
        with record_function("forward_pass"):
            loss = model(torch.randn(16, 64)).square().mean()
        with record_function("backward_pass"):
            optimizer.zero_grad()
            loss.backward()
        with record_function("optimizer_step"):
            optimizer.step()
totals = dict.fromkeys(("forward_pass", "backward_pass", "optimizer_step"), 0.0)
for event in prof.events():
    if event.name in totals:
        totals[event.name] += event.cpu_time_total
for name, us in totals.items():
    print(name, us / sum(totals.values()) * 100)
