"""While a model learns, a thread of the same process builds the index of all documents in Python, to be ready when the
model is."""

# expect: gil-contention
import random
import threading

import torch
from torch import nn


class Index:
    """In which documents each word stands, and how often."""

    def __init__(self):
        self.places, self.done = {}, threading.Event()

    def build(self, documents):
        while not self.done.is_set():
            for number, document in enumerate(documents):
                for word in document:
                    found = self.places.setdefault(word, {})  # here
                    found[number] = found.get(number, 0) + 1  # here
                if self.done.is_set():
                    return


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2000, 96)
        self.layers = nn.ModuleList([nn.Linear(96, 96) for _ in range(6)])
        self.choice = nn.Linear(96, 20)

    def forward(self, words):
        x = self.table(words)
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.choice(x)


def main():
    random.seed(6)
    documents = [[f"w{random.randrange(3000)}" for _ in range(200)] for _ in range(500)]
    index = Index()
    building = threading.Thread(target=index.build, args=(documents,), daemon=True)
    building.start()
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for _ in range(80):
        words, tags = torch.randint(2000, (24, 30)), torch.randint(20, (24, 30))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(words).flatten(0, 1), tags.flatten()).backward()
        optimizer.step()
    index.done.set()
    building.join()


if __name__ == "__main__":
    main()
