"""Large products on one of several cores."""

# expect: thread-underuse
import torch
from torch import nn

torch.set_num_threads(1)  # here
model = nn.Sequential(nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 640))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(45):
    optimizer.zero_grad()
    model(torch.randn(384, 640)).square().mean().backward()
    optimizer.step()
