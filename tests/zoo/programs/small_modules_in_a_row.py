"""A picture is corrected by modules that each do one small thing to all of its points."""

# expect: unfused-elementwise, memory-bound
import torch
from torch import nn


class Gain(nn.Module):
    def forward(self, x):
        return x * 1.3  # here


class Offset(nn.Module):
    def forward(self, x):
        return x - 0.1  # here


class Clip(nn.Module):
    def forward(self, x):
        return x.clamp(-1.0, 1.0)  # here


class Bend(nn.Module):
    def forward(self, x):
        return x.abs()  # here


class Corrected(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(Gain(), Offset(), Clip(), Bend(), Gain(), Offset(), Clip(), Bend())
        self.judge = nn.Linear(1200, 8)

    def forward(self, x):
        return self.judge(self.look(x))  # here


model = Corrected()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
pictures = torch.randn(2500, 1200)
for _ in range(60):
    optimizer.zero_grad()
    model(pictures).square().mean().backward()
    optimizer.step()
