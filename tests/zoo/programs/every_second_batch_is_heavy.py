"""Batches of long and of short documents take turns, and so do the two workers: one has all the long ones."""

# expect: loader-too-slow
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = {f"w{i}": i for i in range(900)}


class Documents(Dataset):
    """Texts, cut into pairs of neighbouring words that are counted."""

    def __init__(self):
        random.seed(3)
        words = list(VOCABULARY)
        self.texts = [" ".join(random.choices(words, k=2400 if i % 2 else 60)) for i in range(400)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        counts = torch.zeros(900)
        words = self.texts[i].split()
        known = {}
        for left, right in zip(words, words[1:], strict=False):
            known[left, right] = known.get((left, right), 0) + 1  # here
        for (left, _), count in known.items():
            counts[VOCABULARY[left]] = count  # here
        return counts, i % 6


class ByLength:
    """Batches of documents of the same length, long and short in turn."""

    def __init__(self, documents, size):
        self.long = [i for i in range(len(documents)) if i % 2]
        self.short = [i for i in range(len(documents)) if not i % 2]
        self.size = size

    def __len__(self):
        return 2 * (len(self.long) // self.size)

    def __iter__(self):
        for at in range(0, len(self.long), self.size):
            yield self.long[at : at + self.size]
            yield self.short[at : at + self.size]


def main():
    documents = Documents()
    loader = DataLoader(documents, batch_sampler=ByLength(documents, 10), num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.Linear(900, 256), nn.ReLU(), nn.Linear(256, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for _ in range(3):
        for counts, classes in loader:  # here
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(counts), classes).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
