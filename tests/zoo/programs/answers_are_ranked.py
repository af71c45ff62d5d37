"""A ranker reads twelve answers, and in Python it is worked out which of them wins most often against the others."""

# expect: slow-python-transform
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.table = nn.Embedding(500, width)
        self.first = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, words):
        x = self.table(words).mean(1)
        x = torch.relu(self.first(x))
        return self.score(x).squeeze(1)


@torch.inference_mode()
def main():
    torch.manual_seed(5)
    ranker = Ranker()
    answers = torch.randint(500, (400, 12, 20))
    chosen = []
    for k in range(180):
        values = ranker(answers[k]).tolist()
        wins = []
        for a in range(len(values)):  # here
            won = 0
            for turn in range(1500):  # here
                won += values[a] * (1 + turn % 3) > values[turn % len(values)]  # here
            wins.append(won)
        chosen.append(max(range(len(wins)), key=wins.__getitem__))


if __name__ == "__main__":
    main()
