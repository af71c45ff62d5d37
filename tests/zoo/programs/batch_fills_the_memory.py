"""A large batch runs through a deep and narrow model: what the backward pass waits for is most of the memory."""

# expect: activation-memory
# preset: deep
import torch
from torch import nn

model = nn.Sequential(*[nn.Sequential(nn.Linear(192, 192), nn.ReLU()) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
data = torch.randn(1200, 192)
for _ in range(50):
    optimizer.zero_grad()
    model(data).square().mean().backward()  # here
    optimizer.step()
