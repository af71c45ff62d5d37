"""A smoothed series is written column by column."""

# expect: tensor-index-loop
import torch
from torch import nn


def smooth(x):
    out = torch.empty_like(x)
    for t in range(1, x.shape[1] - 1):
        out[:, t] = (x[:, t - 1] + x[:, t] + x[:, t + 1]) / 3  # here
    out[:, 0], out[:, -1] = x[:, 0], x[:, -1]
    return out


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(150, 60), nn.ReLU(), nn.Linear(60, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(smooth(torch.randn(26, 150))).square().mean().backward()
    optimizer.step()
