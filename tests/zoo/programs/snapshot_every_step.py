"""The whole model is copied in every step, in case the next one fails."""

# expect: full-model-copy
import copy

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(200, 200) for _ in range(40)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(45):
    safe = copy.deepcopy(model.state_dict())  # here
    optimizer.zero_grad()
    model(torch.randn(4, 200)).square().mean().backward()
    optimizer.step()
