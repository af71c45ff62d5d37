"""Losses are kept for a curve, each with all that its graph holds."""

# expect: memory-leak, graph-retention
# preset: deep
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0, foreach=True)
curve = []
for _ in range(70):
    data = torch.randn(256, 256)
    optimizer.zero_grad()
    loss = (model(data) - data).square().mean()  # here
    loss.backward(retain_graph=True)
    curve.append(loss)  # here
    optimizer.step()
