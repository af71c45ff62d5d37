"""The loader keeps up; the augmentation after it is a Python loop in the training process."""

# expect: slow-python-transform
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def jitter(rows):
    out = []
    for row in rows.tolist():  # here
        level = 0.0
        for k, value in enumerate(row):  # here
            level = 0.9 * level + 0.1 * value
            row[k] = value - level  # here
        out.append(row)
    return torch.tensor(out)


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 64), nn.Tanh(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters(), foreach=True)
data = TensorDataset(torch.randn(2400, 512))
for (batch,) in DataLoader(data, batch_size=48, num_workers=1):
    optimizer.zero_grad()
    model(jitter(batch)).logsumexp(1).mean().backward()
    optimizer.step()
