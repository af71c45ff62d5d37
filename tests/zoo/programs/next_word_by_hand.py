"""A model writes a text word by word. Which words may come next, up to nine tenths of the chances, is worked out in
Python from a list of all of them."""

# expect: slow-python-transform
import random

import torch
from torch import nn

WORDS = 24000


class Writer(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.table = nn.Embedding(WORDS, width)
        self.cell = nn.GRUCell(width, width)
        self.choice = nn.Linear(width, WORDS)

    def forward(self, word, state):
        state = self.cell(self.table(word), state)
        return self.choice(state), state


def pick(chances, most=0.9):
    ordered = sorted(enumerate(chances), key=lambda pair: -pair[1])  # here
    total, kept = 0.0, []
    for word, chance in ordered:  # here
        kept.append((word, chance))
        total += chance
        if total >= most:
            break
    words, weights = zip(*kept)
    return random.choices(words, weights)[0]


@torch.no_grad()
def main():
    torch.manual_seed(3)
    random.seed(3)
    writer = Writer().eval()
    word, state, text = torch.tensor([1]), torch.zeros(1, 128), []
    for _ in range(100):
        scores, state = writer(word, state)
        chances = scores.softmax(1).squeeze(0).tolist()
        text.append(pick(chances))  # here
        word = torch.tensor([text[-1]])


if __name__ == "__main__":
    main()
