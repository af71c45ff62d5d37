"""A model is rewarded for sentences that are close to what was asked for; two processes work out how close, and the
loop waits for their answers before it goes on."""

# expect: host-waits
import multiprocessing
import random

import torch
from torch import nn

WORDS, LENGTH = 50, 36


def distance(pair):
    """How many words must be changed, added or left out to make one sentence of the other."""
    made, wanted = pair
    row = list(range(len(wanted) + 1))
    for i, word in enumerate(made, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(wanted, 1):
            cost = min(row[j] + 1, row[j - 1] + 1, before + (word != other))  # here
            before, row[j] = row[j], cost
    return row[-1]


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 96)
        self.cell = nn.GRU(96, 96, batch_first=True)
        self.choice = nn.Linear(96, WORDS)

    def forward(self, words):
        return self.choice(self.cell(self.table(words))[0]).log_softmax(-1)


def main():
    random.seed(4)
    model = Writer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)
    with multiprocessing.Pool(2) as pool:
        for _ in range(70):
            asked = torch.randint(WORDS, (32, LENGTH))
            scores = model(asked)
            made = torch.distributions.Categorical(logits=scores.detach()).sample()
            pairs = list(zip(made.tolist(), asked.tolist(), strict=True))
            reward = -torch.tensor(pool.map(distance, pairs), dtype=torch.float32)  # here
            chosen = scores.gather(2, made[..., None]).squeeze(2).sum(1)
            optimizer.zero_grad()
            (-(reward - reward.mean()) * chosen).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
