"""Images of seventeen bands, as a satellite takes them, are sharpened by convolutions that keep seventeen channels."""

# expect: unaligned-sizes
import torch
from torch import nn

BANDS = 17


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)  # here
        self.second = nn.Conv2d(channels, channels, 3, padding=1)  # here

    def forward(self, x):
        return x + self.second(self.first(x).relu())  # here


class Sharpener(nn.Module):
    def __init__(self, channels, depth=5):
        super().__init__()
        self.blocks = nn.Sequential(*[Residual(channels) for _ in range(depth)])
        self.last = nn.Conv2d(channels, channels, 3, padding=1)  # here

    def forward(self, x):
        return x + self.last(self.blocks(x))  # here


def blurred(images):
    return nn.functional.avg_pool2d(images, 3, stride=1, padding=1)


def main():
    torch.manual_seed(1)
    model = Sharpener(BANDS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    for _ in range(50):
        sharp = torch.rand(6, BANDS, 96, 96)
        optimizer.zero_grad()
        loss = (model(blurred(sharp)) - sharp).abs().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
