"""A worker process makes the batches well ahead of the loop."""

# expect: nothing
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(256, 900), nn.ReLU(), nn.Linear(900, 256))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data = TensorDataset(torch.randn(512, 256))
loader = DataLoader(data, batch_size=256, num_workers=1, prefetch_factor=4, persistent_workers=True)
for _ in range(30):
    for (batch,) in loader:
        optimizer.zero_grad()
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
