"""The targets of a step are counted in Python, inside a label of the user's."""

# expect: slow-python-transform
import torch
from torch import nn
from torch.profiler import record_function

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
text = [(31 * i * i + 7 * i) % 997 for i in range(4000)]
for step in range(50):
    with record_function("histogram"):
        counts = {}
        for position, token in enumerate(text):  # here
            key = (token * (step + 1) + position) % 50  # here
            counts[key] = counts.get(key, 0) + token % 3  # here
        target = torch.tensor([[float(counts.get(k, 0)) for k in range(50)]])
    with record_function("train"):
        optimizer.zero_grad()
        (model(torch.randn(16, 300)) - target).square().mean().backward()
        optimizer.step()
