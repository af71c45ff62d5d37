"""Adapters of a low rank are trained beside the weights of a language model. The optimizer has only the adapters;
autograd was not told that the weights beside them stay as they are."""

# expect: unneeded-gradient
import torch
from torch import nn

WORDS, RANK = 900, 4


class Adapted(nn.Module):
    """A layer whose weights stay, and two small matrices that are added to it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer  # here
        self.adapter_in = nn.Linear(layer.in_features, RANK, bias=False)
        self.adapter_out = nn.Linear(RANK, layer.out_features, bias=False)
        nn.init.zeros_(self.adapter_out.weight)

    def forward(self, x):
        return self.layer(x) + self.adapter_out(self.adapter_in(x))  # here


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.back = Adapted(nn.Linear(width, 4 * width)), Adapted(nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.back(self.wide(self.norm(x)).relu())


class Language(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.table = nn.Embedding(WORDS, width).requires_grad_(False)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(5)])
        self.choice = nn.Linear(width, WORDS).requires_grad_(False)

    def forward(self, words):
        return self.choice(self.blocks(self.table(words)))


def main():
    torch.manual_seed(0)
    model = Language()
    adapters = [weight for name, weight in model.named_parameters() if "adapter" in name]
    optimizer = torch.optim.AdamW(adapters, lr=0.001, fused=True)  # here
    for _ in range(40):
        words = torch.randint(WORDS, (8, 65))
        optimizer.zero_grad()
        scores = model(words[:, :-1])
        nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
