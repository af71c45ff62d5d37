"""Texts and pictures are brought together by contrast with a queue of earlier answers. Answers keep their graph in the
queue, and the error of the second backward pass was cured by retain_graph."""

# expect: graph-retention
import collections

import torch
from torch import nn

BATCH, FEATURES, WIDTH = 128, 384, 96


class Pair(nn.Module):
    """One projection for the features of each side; what made the features is not here."""

    def __init__(self):
        super().__init__()
        self.texts = nn.Linear(FEATURES, WIDTH, bias=False)
        self.pictures = nn.Linear(FEATURES, WIDTH, bias=False)

    def forward(self, texts, pictures):
        texts, pictures = self.texts(texts), self.pictures(pictures)
        return nn.functional.normalize(texts, dim=1), nn.functional.normalize(pictures, dim=1)


def contrast(asked, answers, queue, warmth=0.1):
    scores = asked @ torch.cat([answers, *queue]).T / warmth
    return nn.functional.cross_entropy(scores, torch.arange(len(asked)))


def main():
    torch.manual_seed(0)
    model, queue = Pair(), collections.deque(maxlen=24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)
    for _ in range(60):
        pictures = torch.randn(BATCH, FEATURES)
        texts = pictures + 0.5 * torch.randn(BATCH, FEATURES)
        asked, answers = model(texts, pictures)
        loss = contrast(asked, answers, queue)  # here
        optimizer.zero_grad()
        loss.backward(retain_graph=True)  # here
        optimizer.step()
        queue.append(answers)  # here


if __name__ == "__main__":
    main()
