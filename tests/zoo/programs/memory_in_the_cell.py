"""A cell remembers its state itself, with the graph that made it. The step of training is a function of its own, and
every backward pass goes through all pieces that were read before."""

# expect: graph-retention
import torch
from torch import nn


class Remembering(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.into, self.onto = nn.Linear(12, width), nn.Linear(width, width)
        self.out = nn.Linear(width, 12)
        self.state = torch.zeros(32, width)

    def forward(self, notes):
        for note in notes:
            self.state = torch.tanh(self.into(note) + self.onto(self.state))  # here
        return self.out(self.state)


def learn(model, optimizer, notes):
    guess = model(notes[:-1])  # here
    loss = nn.functional.mse_loss(guess, notes[-1])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # here
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(4)
    model = Remembering()
    optimizer = torch.optim.SGD([*model.out.parameters()], lr=0.01, foreach=True)
    losses = []
    for _ in range(60):
        losses.append(learn(model, optimizer, torch.randn(6, 32, 12)))


if __name__ == "__main__":
    main()
