"""A model that is compiled at its first step, and then replayed."""

# expect: nothing
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(190, 190) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
compiled = torch.compile(model, backend="eager")
data = torch.randn(60, 190)
for _ in range(48):
    optimizer.zero_grad()
    (compiled(data) - data).square().mean().backward()
    optimizer.step()
