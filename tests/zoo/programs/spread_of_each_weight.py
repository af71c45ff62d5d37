"""For the pictures of a dashboard the range, the mean and a histogram of each weight and of each gradient are worked
out in every step."""

# expect: per-parameter-loop
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x))))


class Dashboard:
    """What the last hundred steps looked like."""

    def __init__(self):
        self.pictures = []

    @torch.no_grad()
    def add(self, model):
        picture = {}
        for name, weight in model.named_parameters():
            for kind, values in (("weight", weight), ("gradient", weight.grad)):
                low, high = values.aminmax()  # here
                counts = torch.histc(values, 32)  # here
                picture[name, kind] = low, high, values.mean(), values.std(correction=0), counts  # here
        self.pictures = [*self.pictures[-99:], picture]


def main():
    torch.manual_seed(0)
    width = 80
    model = nn.Sequential(nn.Linear(30, width), *[Block(width) for _ in range(12)], nn.Linear(width, 1))
    optimizer, dashboard = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True), Dashboard()
    for _ in range(60):
        rows = torch.randn(192, 30)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows).squeeze(1), rows[:, :5].sum(1)).backward()
        optimizer.step()
        dashboard.add(model)  # here


if __name__ == "__main__":
    main()
