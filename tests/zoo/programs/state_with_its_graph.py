"""The state of a recurrent network goes from one piece of text to the next with its graph, so that every backward pass
runs through all the pieces before."""

# expect: graph-retention
import random

import torch
from torch import nn

ALPHABET = "abcdefghijklmnopqrstuvwxyz .,\n"


def text(length):
    random.seed(9)
    return torch.tensor([random.randrange(len(ALPHABET)) for _ in range(length)])


class Speller(nn.Module):
    """Foretells the next letter."""

    def __init__(self, width=128):
        super().__init__()
        self.table = nn.Embedding(len(ALPHABET), 48)
        self.cell = nn.GRU(48, width, batch_first=True)
        self.choice = nn.Linear(width, len(ALPHABET))

    def forward(self, letters, state):
        made, state = self.cell(self.table(letters), state)
        return self.choice(made), state


def main():
    streams, piece, rate = 16, 10, 0.02
    letters = text(streams * 640).view(streams, -1)
    model = Speller()
    state = torch.zeros(1, streams, 128)
    for at in range(0, 600, piece):
        model.zero_grad()
        scores, state = model(letters[:, at : at + piece], state)  # here
        wanted = letters[:, at + 1 : at + piece + 1]
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        loss.backward(retain_graph=True)  # here
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-rate)


if __name__ == "__main__":
    main()
