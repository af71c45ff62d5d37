"""Settings that were written for a machine of 32 cores are used on a smaller one."""

# expect: thread-oversubscription
import json

import torch
from torch import nn

SETTINGS = """{"width": 512, "batch": 192, "rate": 0.01, "threads": 32}"""


def prepare(settings):
    torch.manual_seed(0)
    torch.set_num_threads(settings["threads"])  # here
    layers = [nn.Linear(settings["width"], settings["width"]) for _ in range(4)]
    model = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())])
    return model, torch.optim.SGD(model.parameters(), lr=settings["rate"], foreach=True)


def main():
    settings = json.loads(SETTINGS)
    model, optimizer = prepare(settings)
    for _ in range(45):
        x = torch.randn(settings["batch"], settings["width"])
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
