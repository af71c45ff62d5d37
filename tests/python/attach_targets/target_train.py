"""torch, a model that runs, and late the first optimizer, which imports a part of torch's compiler."""

import time

from target_state import finish, mark

mark("begins")
import torch

mark("torch")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
x, y = torch.randn(8, 16), torch.randn(8, 1)
for _ in range(60):
    with torch.no_grad():
        model(x)
    time.sleep(0.005)
mark("optimizer")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
mark("trains")
losses = []
for _ in range(300):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    time.sleep(0.003)
finish(losses, torch.rand(4).tolist())
