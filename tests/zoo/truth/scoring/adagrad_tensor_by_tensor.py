"""An optimizer goes through many small tensors one by one."""

# expect: single-tensor-optimizer, per-parameter-loop
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 48)

    def forward(self, x):
        return x + 0.1 * self.layer(x)


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(*[Small() for _ in range(190)])
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.001, weight_decay=0.001, fused=fast)
    data = torch.randn(64, 48)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step
