"""After every twenty-fifth step the words of all documents are counted again, for as long as a dozen steps take."""

# expect: periodic-stall
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(220, 220) for _ in range(9)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
data = torch.randn(48, 220)
documents = [[(k * j) % 5000 for j in range(1, 700)] for k in range(1200)]


def count_words():
    counts = {}
    for words in documents:
        for word in words:
            counts[word] = counts.get(word, 0) + 1  # here
    return counts


for step in range(170):
    optimizer.zero_grad()
    (model(data) - data).square().mean().backward()
    optimizer.step()
    if step % 25 == 24:
        counts = count_words()  # here
