"""A worker process makes the batches well ahead of the loop."""

# expect: nothing
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(180, 180) for _ in range(30)])
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data = TensorDataset(torch.randn(2400, 180))
loader = DataLoader(data, batch_size=50, num_workers=1, prefetch_factor=4)
for (batch,) in loader:
    optimizer.zero_grad()
    (model(batch) - batch).square().mean().backward()
    optimizer.step()
