"""The model is called again for the share of right answers, and once more for how sure it is."""

# expect: repeated-forward
import torch
from torch import nn


def figures(model, data, wanted):
    with torch.no_grad():
        right = (model(data).argmax(1) == wanted).float().mean()  # here
        sure = model(data).softmax(1).amax(1).mean()  # here
    return right, sure


model = nn.Sequential(nn.Linear(512, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
data, wanted = torch.randn(320, 512), torch.randint(0, 10, (320,))
for _ in range(60):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(data), wanted).backward()
    seen = figures(model, data, wanted)  # here
    optimizer.step()
