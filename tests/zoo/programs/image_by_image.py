"""A filter is applied to one image of the batch after the other."""

# expect: per-sample-loop
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
kernel = torch.ones(1, 1, 3, 3) / 9
for _ in range(45):
    batch = torch.randn(120, 1, 10, 10)
    blurred = [F.conv2d(F.pad(image.unsqueeze(0), (1, 1, 1, 1)), kernel).abs() for image in batch]  # here
    optimizer.zero_grad()
    model(torch.cat(blurred)).square().mean().backward()
    optimizer.step()
