"""The garbage collector is switched off and called after every eighth step, over a data set of many small objects."""

# expect: gc-pressure, periodic-stall
import gc
import random

import torch
from torch import nn


class Corpus:
    """Sentences as records of Python, as a reader of JSON lines makes them."""

    def __init__(self, count):
        self.records = [
            {"id": i, "text": [random.randrange(800) for _ in range(24)], "source": {"page": i % 90, "line": [i]}}
            for i in range(count)
        ]

    def batch(self, size):
        return torch.tensor([r["text"] for r in random.choices(self.records, k=size)])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(800, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.choice = nn.Linear(128, 800)

    def forward(self, words):
        return self.choice(self.layers(self.table(words)))


def main():
    random.seed(7)
    corpus = Corpus(150000)
    gc.disable()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0003, fused=True)
    for step in range(160):
        words = corpus.batch(16)
        optimizer.zero_grad()
        scores = model(words[:, :-1])
        nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
        optimizer.step()
        if step % 8 == 7:
            gc.collect()  # here


if __name__ == "__main__":
    main()
