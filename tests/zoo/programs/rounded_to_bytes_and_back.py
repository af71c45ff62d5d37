"""A model learns with numbers as a small chip has them: behind each layer they are rounded to bytes and taken back."""

# expect: casts-back-and-forth
import torch
from torch import nn


class Rounded(torch.autograd.Function):
    """As bytes, with a scale; the gradient goes through as if nothing was rounded."""

    @staticmethod
    def forward(ctx, x, scale):
        small = (x * scale).to(torch.int8)  # here
        return small.to(torch.float32) / scale  # here

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Chip(nn.Module):
    def __init__(self, width=256, depth=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = Rounded.apply(layer(x).relu(), 16.0)  # here
        return x


def main():
    torch.manual_seed(1)
    chip = Chip()
    optimizer = torch.optim.SGD(chip.parameters(), lr=0.001, foreach=True)
    for _ in range(50):
        x = torch.randn(4096, 256)
        optimizer.zero_grad()
        (chip(x) - x).abs().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
