"""Every layer's input is cloned, and nothing is changed in place."""

# expect: redundant-copy
import torch
from torch import nn


class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(6)])

    def forward(self, x):
        for gain in self.gain:
            kept = x.clone()  # here
            x = kept * gain
        return x


model = Careful()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0, foreach=True)
data = torch.randn(900, 500)
for _ in range(45):
    optimizer.zero_grad()
    model(data).mean().backward()
    optimizer.step()
