"""The layers of a model in bfloat16 have widths that no unit of a processor is made for."""

# expect: unaligned-sizes
import torch
from torch import nn

model = nn.Sequential(nn.Linear(509, 1021), nn.ReLU(), nn.Linear(1021, 1021), nn.ReLU(), nn.Linear(1021, 509))  # here
model = model.bfloat16().eval()
data = torch.randn(512, 509, dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(120):
        model(data)  # here
