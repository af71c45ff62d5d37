"""Pictures are marked for gradients since a look at what the network looks at."""

# expect: unneeded-gradient
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(4, 24, 5, padding=2), nn.ReLU(), nn.MaxPool2d(8), nn.Conv2d(24, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 10 * 10, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    pictures = torch.randn(8, 4, 96, 96)

    def step():
        batch = pictures.detach()
        if not fast:
            batch.requires_grad_()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
