"""A compiled function meets a new Python number in every step."""

# expect: recompilation
import torch
from torch import nn

torch.set_num_threads(1)
torch._dynamo.config.cache_size_limit = 200
model = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)


@torch.compile(backend="eager", dynamic=False)
def loss_of(x, name):
    return model(x).square().mean() * len(name)  # here


for step in range(50):
    optimizer.zero_grad()
    loss_of(torch.randn(16, 30), f"step {step}").backward()  # here
    optimizer.step()
