"""A classifier of birds is trained. Behind each batch the hits, the false alarms and the misses of every species are
counted one species at a time, and each count is taken out of its tensor."""

# expect: per-element-item, many-small-ops
import torch
from torch import nn

SPECIES = 120


class Counts:
    def __init__(self):
        self.hits, self.alarms, self.misses = [0] * SPECIES, [0] * SPECIES, [0] * SPECIES

    def update(self, named, wanted):
        for kind in range(SPECIES):
            self.hits[kind] += ((named == kind) & (wanted == kind)).sum().item()  # here
            self.alarms[kind] += ((named == kind) & (wanted != kind)).sum().item()  # here
            self.misses[kind] += ((named != kind) & (wanted == kind)).sum().item()  # here

    def score(self):
        scores = [2 * h / max(1, 2 * h + a + m) for h, a, m in zip(self.hits, self.alarms, self.misses)]
        return sum(scores) / SPECIES


class Birds(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(256, width), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(),
        )  # fmt: skip
        self.choice = nn.Linear(width, SPECIES)

    def forward(self, songs):
        return self.choice(self.body(songs))


def main():
    torch.manual_seed(0)
    model, counts = Birds(), Counts()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    for _ in range(60):
        wanted = torch.randint(SPECIES, (256,))
        songs = torch.randn(256, 256) + nn.functional.one_hot(wanted, 256)
        optimizer.zero_grad()
        scores = model(songs)
        nn.functional.cross_entropy(scores, wanted).backward()
        optimizer.step()
        counts.update(scores.argmax(1), wanted)  # here
    print(f"{counts.score():.3f}")


if __name__ == "__main__":
    main()
