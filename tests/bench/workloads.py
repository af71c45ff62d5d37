"""What the recorder's bench records: loops of tiny operators and three whole training steps, built from fixed seeds."""

import torch
from torch import nn


class Block(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.short = None
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        short = x if self.short is None else self.short(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + short)


def resnet18():
    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *[Block(*w) for w in widths],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def training_step(model, x, y):
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def mlp(wrapped=lambda model: model):
    model = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 10))
    return training_step(wrapped(model), torch.randn(16, 64), torch.randint(0, 10, (16,)))


def resnet():
    return training_step(resnet18(), torch.randn(1, 3, 64, 64), torch.randint(0, 10, (1,)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        self.body, self.head = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


def transformer(wrapped=lambda model: model):
    return training_step(wrapped(Encoder()), torch.randn(4, 32, 64), torch.randint(0, 10, (4,)))


def tiny():
    a, b = torch.ones(2), torch.ones(2)

    def step():
        for _ in range(200):
            torch.add(a, b)

    return step


STEPS = {"tiny operators": tiny, "MLP": mlp, "ResNet-18": resnet, "transformer": transformer}
COMPILED = {"MLP": lambda: mlp(torch.compile), "transformer": lambda: transformer(torch.compile)}


def add_loop(n):
    """n operators."""
    a, b = torch.ones(2), torch.ones(2)
    add = torch.add

    def run():
        for _ in range(n):
            add(a, b)

    return run


def mix_loop(n):
    """n operators of four kinds."""
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    out = torch.empty(4, 4)

    def run():
        for _ in range(n // 4):
            torch.add(a, b, out=out)
            torch.mul(a, 2.0, out=out)
            torch.mm(a, b, out=out)
            out.fill_(1.0)

    return run


def at_depth(depth, call):
    """Calls `call` with `depth` more Python frames around it."""
    if depth == 0:
        return call()
    return at_depth(depth - 1, call)
