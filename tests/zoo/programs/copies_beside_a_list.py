"""Each stage works on a copy of what the one before returns, which nothing changes. Beside that a list keeps the
largest values of each step as a tensor."""

# expect: redundant-copy
# preset: deep
import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x):
        own = x.clone()  # here
        return own * self.gain


def main():
    torch.manual_seed(1)
    stages = nn.Sequential(*[Stage() for _ in range(5)])
    optimizer = torch.optim.SGD(stages.parameters(), lr=0.0, foreach=True)
    data, largest = torch.randn(800, 600), []
    for _ in range(50):
        out = stages(data)
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        largest.append(out.detach().amax(1))


if __name__ == "__main__":
    main()
