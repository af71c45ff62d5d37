"""The teacher of a distillation gets gradients that are never used."""

# expect: unneeded-gradient
import torch
from torch import nn

torch.set_num_threads(1)
student = nn.Sequential(nn.Linear(80, 40), nn.ReLU(), nn.Linear(40, 10))
teacher = nn.Sequential(nn.Linear(80, 400), nn.GELU(), nn.Linear(400, 400), nn.GELU(), nn.Linear(400, 10))
optimizer = torch.optim.SGD(student.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    x = torch.randn(256, 80)
    optimizer.zero_grad()
    target = teacher(x).log_softmax(1)  # here
    (student(x).log_softmax(1) - target).square().mean().backward()
    optimizer.step()
