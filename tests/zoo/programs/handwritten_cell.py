"""A recurrent cell written out in small operators."""

# expect: many-small-ops, tensor-index-loop, per-sample-loop
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.into, self.back = nn.Linear(size, 2 * size), nn.Linear(size, 2 * size)

    def forward(self, sequence):
        state = torch.zeros_like(sequence[0])
        for frame in sequence.unbind(0):
            gate, new = (self.into(frame) + self.back(state)).chunk(2, 1)  # here
            gate = torch.sigmoid(gate)  # here
            state = gate * state + (1 - gate) * torch.tanh(new)  # here
        return state


torch.set_num_threads(1)
model = Cell(18)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(50, 5, 18)).square().mean().backward()
    optimizer.step()
