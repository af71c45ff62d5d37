"""A hook is hung up before each step and taken down behind it, and what it caught is let go of."""

# expect: nothing
# preset: deep
import torch
from torch import nn


def main():
    torch.manual_seed(2)
    features = nn.Sequential(nn.Linear(256, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU())
    model = nn.Sequential(features, nn.Linear(640, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
    caught, spreads = [], []
    for _ in range(50):
        handle = features.register_forward_hook(lambda layer, inputs, output: caught.append(output.detach()))
        x = torch.randn(320, 256)
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
        spreads.append(caught.pop().std())
        handle.remove()
    print(len(caught), torch.stack(spreads).mean().item() > 0)


if __name__ == "__main__":
    main()
