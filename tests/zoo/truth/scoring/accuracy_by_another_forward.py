"""The hits of a batch are counted by a further pass through the model, with the same result as the first."""

# expect: repeated-forward
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(500, 800), nn.ReLU(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    data, wanted = torch.randn(400, 500), torch.randint(0, 10, (400,))
    hits = []

    def step():
        optimizer.zero_grad()
        out = model(data)
        nn.functional.cross_entropy(out, wanted).backward()
        with torch.no_grad():
            judged = out if fast else model(data)
            hits.append((judged.argmax(1) == wanted).sum().item())
        optimizer.step()

    return step
