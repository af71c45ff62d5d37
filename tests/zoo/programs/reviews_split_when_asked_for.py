"""A classifier of reviews is trained. The data set splits a review into pieces of words when it is asked for it, and
the loader has no workers."""

# expect: loader-in-main-process, slow-python-transform
import random
import re

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
LONGEST = 96


class Pieces:
    """Words are cut into the longest pieces that the vocabulary has."""

    def __init__(self):
        pieces = [*"abcdefghijklmnopqrstuvwxyz", *SYLLABLES, *(a + b for a in SYLLABLES for b in SYLLABLES[::7])]
        self.numbers = {piece: n for n, piece in enumerate(pieces, 1)}

    def split(self, text):
        numbers = []
        for word in re.findall(r"[a-z]+", text.lower()):  # here
            begin = 0
            while begin < len(word):
                end = len(word)
                while word[begin:end] not in self.numbers:  # here
                    end -= 1
                numbers.append(self.numbers[word[begin:end]])  # here
                begin = end
        return numbers


class Reviews(Dataset):
    def __init__(self, pieces, count):
        random.seed(1)
        self.pieces = pieces
        words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 5))) for _ in range(4000)]
        self.texts = [" ".join(random.choices(words, k=random.randint(250, 500))) for _ in range(count)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        numbers = self.pieces.split(self.texts[i])[:LONGEST]  # here
        return torch.tensor(numbers + [0] * (LONGEST - len(numbers))), i % 2


class Classifier(nn.Module):
    def __init__(self, pieces, width=96):
        super().__init__()
        self.table = nn.Embedding(len(pieces.numbers) + 1, width)
        self.body = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.choice = nn.Linear(width, 2)

    def forward(self, numbers):
        return self.choice(self.body(self.table(numbers)).mean(1))


def main():
    torch.manual_seed(0)
    pieces = Pieces()
    model = Classifier(pieces)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0005, fused=True)
    for numbers, liked in DataLoader(Reviews(pieces, 1600), batch_size=32, shuffle=True):  # here
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(numbers), liked).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
