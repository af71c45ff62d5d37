"""After every thirtieth step the model is tried on data that was put aside: once in a window of 15 steps, or not at
all."""

# expect: periodic-stall
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
data = torch.randn(48, 220)
held = torch.randn(4000, 220)


def evaluate():
    with torch.no_grad():
        for part in held.split(400):
            model(part)  # here


for step in range(160):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step % 30 == 29:
        evaluate()
        evaluate()  # here
