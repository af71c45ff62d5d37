"""The loss of each class is worked out by itself, and all are added."""

# expect: many-small-ops, per-sample-loop
import torch
from torch import nn

CLASSES = 90


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 400), nn.ReLU(), nn.Linear(400, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    data, wanted = torch.randn(500, 300), (torch.rand(500, CLASSES) < 0.1).float()
    loss_of = nn.BCEWithLogitsLoss()

    def step():
        optimizer.zero_grad()
        out = model(data)
        each = [(out, wanted)] if fast else [(out[:, k], wanted[:, k]) for k in range(CLASSES)]
        loss = sum(loss_of(*pair) for pair in each) * CLASSES / len(each)
        loss.backward()
        optimizer.step()

    return step
