"""The function that makes a batch of documents counts their words and weighs them, in Python, in the workers."""

# expect: loader-too-slow
import math
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = 700


class Documents(Dataset):
    def __init__(self, count):
        random.seed(2)
        self.texts = [[random.randrange(WORDS) for _ in range(900)] for _ in range(count)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], i % 6


def weighed(batch):
    """A row of weights for each document: how often a word is in it, less where many documents have it."""
    rows = torch.zeros(len(batch), WORDS)
    frequency = [0] * WORDS
    for text, _ in batch:
        for word in set(text):  # here
            frequency[word] += 1
    for row, (text, _) in enumerate(batch):
        weights = [0.0] * WORDS
        for word in text:  # here
            weights[word] += math.log(1 + len(batch) / frequency[word]) / len(text)  # here
        rows[row] = torch.tensor(weights)
    return rows, torch.tensor([kind for _, kind in batch])


def main():
    model = nn.Sequential(nn.Linear(WORDS, 64), nn.Tanh(), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    loader = DataLoader(Documents(4800), batch_size=48, num_workers=2, collate_fn=weighed, persistent_workers=True)
    for rows, kinds in loader:  # here
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), kinds).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
