"""An encoder that does not learn has run once before the loop, and every step goes back through its graph."""

# expect: graph-retention, unneeded-gradient
import torch
from torch import nn

encoder = nn.Sequential(*[nn.Linear(320, 320) for _ in range(6)])
known = encoder(torch.randn(400, 320))  # here
head = nn.Sequential(nn.Linear(320, 320), nn.ReLU(), nn.Linear(320, 5))
optimizer = torch.optim.SGD(head.parameters(), lr=0.01, foreach=True)
for _ in range(60):
    optimizer.zero_grad()
    loss = head(known).square().mean()  # here
    loss.backward(retain_graph=True)  # here
    optimizer.step()
