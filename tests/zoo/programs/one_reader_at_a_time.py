"""A language model makes token after token for one reader, and reads all of its weights for each."""

# expect: memory-bound
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x))))  # here


class Decoder(nn.Module):
    def __init__(self, words=2000, width=1024):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(6)])
        self.choice = nn.Linear(width, words)

    def forward(self, token):
        return self.choice(self.blocks(self.table(token))).argmax(-1)  # here


model = Decoder().eval()
token = torch.tensor([1])
with torch.inference_mode():
    for _ in range(120):
        token = model(token)  # here
