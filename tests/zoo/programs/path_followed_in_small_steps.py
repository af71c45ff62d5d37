"""A field learnt by a network is followed in 60 small steps, and the end of the path is compared with where it should
end: the backward pass needs what every step of the path put out."""

# expect: activation-memory
# preset: deep
import torch
from torch import nn

STEPS = 60


class Field(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.into = nn.Linear(3, width)  # here
        self.middle = nn.Linear(width, width)  # here
        self.out = nn.Linear(width, 3)  # here

    def forward(self, at):
        return self.out(torch.tanh(self.middle(torch.tanh(self.into(at)))))  # here


def follow(field, at):
    for _ in range(STEPS):
        at = at + field(at) / STEPS  # here
    return at


def main():
    torch.manual_seed(5)
    field = Field()
    optimizer = torch.optim.SGD(field.parameters(), lr=0.01, foreach=True)
    for _ in range(40):
        start = torch.randn(3000, 3)
        end = start.roll(1, 1) * 0.5
        optimizer.zero_grad()
        loss = (follow(field, start) - end).square().sum(1).mean()  # here
        loss.backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
