"""What bends the signal behind each layer is worked out in doubles, and the result is narrowed again on the line."""

# expect: casts-back-and-forth, dtype-promotion
import torch
from torch import nn


class Precise(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(192, 192) for _ in range(5)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).double().clamp(-2, 2).float()  # here
        return x


model = Precise()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
data = torch.randn(3000, 192)
for _ in range(60):
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
