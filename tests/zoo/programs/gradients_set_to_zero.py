"""Gradients are set to zero before each step, and not let go of, in a model of many weights and small batches."""

# expect: gradient-zero-fill
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, items=1500, width=1500):
        super().__init__()
        self.hidden = nn.Linear(items, width)
        self.deeper = nn.Linear(width, width)
        self.back = nn.Linear(width, items)

    def forward(self, bought):
        return self.back(self.deeper(self.hidden(bought).relu()).relu())


def main():
    torch.manual_seed(6)
    model = Recommender()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for _ in range(60):
        bought = (torch.rand(4, 1500) < 0.01).float()
        optimizer.zero_grad(set_to_none=False)  # here
        nn.functional.binary_cross_entropy_with_logits(model(bought), bought).backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
