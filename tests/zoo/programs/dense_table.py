"""A table of which a step uses a few rows has a gradient for all of them."""

# expect: dense-embedding-gradient
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(60000, 40), nn.Flatten(), nn.Linear(160, 2))  # here
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
for _ in range(45):
    optimizer.zero_grad()
    model(torch.randint(0, 60000, (32, 4))).square().mean().backward()  # here
    optimizer.step()  # here
