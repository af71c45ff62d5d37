"""A model in a narrower type: the input is cast to it once, and its output back for the loss."""

# expect: nothing
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
images = torch.randint(0, 255, (400, 256), dtype=torch.uint8)
labels = torch.randint(0, 64, (400,))
for _ in range(50):
    optimizer.zero_grad()
    out = model(images.to(torch.bfloat16) / 255).float()
    nn.functional.cross_entropy(out, labels).backward()
    optimizer.step()
