"""Tables of users and items have gradients for all of their rows, of which a step uses few."""

# expect: dense-embedding-gradient
import torch
from torch import nn


class Ratings(nn.Module):
    def __init__(self, fast):
        super().__init__()
        self.users = nn.Embedding(400000, 32, sparse=fast)
        self.items = nn.Embedding(160000, 32, sparse=fast)
        self.judge = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, who, what):
        return self.judge(torch.cat([self.users(who), self.items(what)], 1))


def make(fast):
    torch.set_num_threads(1)
    model = Ratings(fast)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    who, what = torch.randint(0, 400000, (1200,)), torch.randint(0, 160000, (1200,))

    def step():
        optimizer.zero_grad()
        model(who, what).square().mean().backward()
        optimizer.step()

    return step
