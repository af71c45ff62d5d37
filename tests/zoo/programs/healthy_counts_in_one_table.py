"""The mistakes of a classifier are counted in one table of all classes, with one operator for each batch; they are read
when the training has ended, and one number for each step is read for the curve."""

# expect: nothing
import torch
from torch import nn

SPECIES = 80


class Counts:
    def __init__(self):
        self.table = torch.zeros(SPECIES * SPECIES, dtype=torch.int64)

    def update(self, named, wanted):
        self.table += torch.bincount(wanted * SPECIES + named, minlength=SPECIES * SPECIES)

    def score(self):
        table = self.table.view(SPECIES, SPECIES)
        return (2 * table.diagonal() / (table.sum(0) + table.sum(1)).clamp(min=1)).mean().item()


def main():
    torch.manual_seed(0)
    width = 448
    body = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    model, counts, curve = nn.Sequential(body, nn.Linear(width, SPECIES)), Counts(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    for _ in range(60):
        wanted = torch.randint(SPECIES, (768,))
        songs = torch.randn(768, 256) + nn.functional.one_hot(wanted, 256)
        optimizer.zero_grad()
        scores = model(songs)
        loss = nn.functional.cross_entropy(scores, wanted)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
        counts.update(scores.argmax(1), wanted)
    print(f"{counts.score():.3f} {curve[-1]:.3f}")


if __name__ == "__main__":
    main()
