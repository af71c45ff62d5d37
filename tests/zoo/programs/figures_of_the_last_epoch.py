"""A model is tried on data that was put aside. The outputs of all batches are collected for the figures at the end,
with autograd switched on: each output keeps all that its batch went through."""

# expect: memory-leak, graph-retention
# preset: deep
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=192, depth=8):
        super().__init__()
        self.into = nn.Linear(64, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.choice = nn.Linear(width, 12)

    def forward(self, frames):
        x = self.into(frames)
        for layer in self.layers:
            x = x + layer(x).relu()  # here
        return self.choice(x.mean(1))


class Figures:
    def __init__(self):
        self.outputs, self.wanted = [], []

    def add(self, outputs, wanted):
        self.outputs.append(outputs)  # here
        self.wanted.append(wanted)

    def hits(self):
        return (torch.cat(self.outputs).argmax(1) == torch.cat(self.wanted)).float().mean()


def main():
    torch.manual_seed(0)
    model, figures = Encoder().eval(), Figures()
    for _ in range(45):
        frames, wanted = torch.randn(16, 64, 64), torch.randint(12, (16,))
        outputs = model(frames)  # here
        figures.add(outputs, wanted)  # here
    print(f"{figures.hits():.3f}")


if __name__ == "__main__":
    main()
