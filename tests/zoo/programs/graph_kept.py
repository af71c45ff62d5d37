"""A running mean of the loss keeps the graph of every step."""

# expect: graph-retention
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(60, 60), nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), lr=0.0, foreach=True)
memory = torch.zeros(40, 60)
for _ in range(60):
    memory = 0.9 * memory + model(torch.randn(40, 60))  # here
    optimizer.zero_grad()
    memory.square().mean().backward(retain_graph=True)  # here
    optimizer.step()
