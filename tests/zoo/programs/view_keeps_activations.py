"""The first vector of each sequence is kept for a picture of what was learnt; it is a view, and keeps all of the output
of the layer with it."""

# expect: memory-leak
# preset: deep
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(64, 256)
        self.mixing = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256))
        self.choice = nn.Linear(256, 12)

    def forward(self, x):
        hidden = self.mixing(self.into(x))  # here
        return hidden, self.choice(hidden.mean(1))


class Picture:
    """What the encoder makes of each sequence, to be drawn when training has ended."""

    def __init__(self):
        self.vectors, self.classes = [], []

    def add(self, hidden, classes):
        self.vectors.append(hidden.detach()[:, 0])  # here
        self.classes.append(classes)

    def points(self):
        vectors = torch.cat(self.vectors)
        return torch.pca_lowrank(vectors, 2)[0], torch.cat(self.classes)


def main():
    torch.manual_seed(6)
    encoder, picture = Encoder(), Picture()
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01, momentum=0.9, foreach=True)
    for _ in range(70):
        sequences, classes = torch.randn(48, 32, 64), torch.randint(12, (48,))
        hidden, scores = encoder(sequences)
        loss = nn.functional.cross_entropy(scores, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        picture.add(hidden, classes)
    picture.points()


if __name__ == "__main__":
    main()
