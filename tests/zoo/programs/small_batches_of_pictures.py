"""Gradients of four small batches add up before each update. The layers are small and the pictures large, so nearly
all of the memory is what backward needs of one small batch."""

# expect: activation-memory
# preset: deep
import torch
from torch import nn

PARTS = 4


def main():
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.GELU(), nn.Conv2d(24, 24, 3, padding=1), nn.GELU(),
        nn.Conv2d(24, 24, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 7),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for _ in range(20):
        optimizer.zero_grad()
        for _ in range(PARTS):
            x, wanted = torch.randn(12, 3, 128, 128), torch.randint(7, (12,))
            loss = nn.functional.cross_entropy(model(x), wanted) / PARTS  # here
            loss.backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
