"""A constant of numpy makes the whole forward pass 64 bits wide."""

# expect: dtype-promotion
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
basis = torch.from_numpy(np.random.default_rng(2).normal(size=(300, 400)))
for _ in range(50):
    signal = torch.randn(256, 300)
    power = torch.matmul(signal.to(basis.dtype), basis).square().log1p()  # here
    features = power.cumsum(1).reshape(256, 40, 10).mean(2).float()
    optimizer.zero_grad()
    model(features).square().mean().backward()
    optimizer.step()
