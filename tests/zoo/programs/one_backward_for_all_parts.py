"""A batch is cut into parts so that it fits, and the losses of the parts are added up before one backward pass: the
graphs of all parts are alive together."""

# expect: activation-memory
# preset: deep
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x))))  # here


class Denoiser(nn.Module):
    def __init__(self, width=160, depth=6):
        super().__init__()
        self.layers = nn.Sequential(*[Layer(width) for _ in range(depth)])

    def forward(self, x):
        return self.layers(x)  # here


def loss_of(model, clean):
    noise = torch.randn_like(clean)
    return (model(clean + noise) - noise).square().mean()  # here


def main():
    torch.manual_seed(5)
    model = Denoiser()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, foreach=True)
    for _ in range(50):
        batch, parts = torch.randn(5120, 160), 8
        total = torch.zeros(())
        for part in batch.chunk(parts):
            total = total + loss_of(model, part) / parts  # here
        optimizer.zero_grad()
        total.backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
