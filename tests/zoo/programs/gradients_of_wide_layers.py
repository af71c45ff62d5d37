"""A model of wide layers learns with plain SGD from four small batches before each update: beside the weights, most of
the memory is their gradients, which stay from one small batch to the next."""

# expect: gradient-memory
# preset: deep
import torch
from torch import nn

PARTS = 4


def main():
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(1800, 3600), nn.ReLU(), nn.Linear(3600, 3600), nn.ReLU(), nn.Linear(3600, 50))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for _ in range(30):
        optimizer.zero_grad()
        for _ in range(PARTS):
            x, wanted = torch.randn(8, 1800), torch.randint(50, (8,))
            loss = nn.functional.cross_entropy(model(x), wanted) / PARTS
            loss.backward()  # here
        optimizer.step()  # here


if __name__ == "__main__":
    main()
