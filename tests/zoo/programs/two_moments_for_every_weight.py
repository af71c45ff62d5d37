"""A wide model learns from small batches with an optimizer that keeps two numbers beside each weight."""

# expect: optimizer-memory
# preset: deep
import torch
from torch import nn


class Tower(nn.Module):
    """One side of a recommender: what is known of a customer or of an article becomes a vector."""

    def __init__(self, known, width):
        super().__init__()
        self.first, self.second = nn.Linear(known, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 64)

    def forward(self, x):
        return nn.functional.normalize(self.last(self.second(self.first(x).relu()).relu()), dim=1)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.customers, self.articles = Tower(900, 1800), Tower(600, 1800)

    def forward(self, customers, articles):
        return self.customers(customers) @ self.articles(articles).T * 8


def main():
    torch.manual_seed(8)
    model = Recommender()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0003, weight_decay=0.01, fused=True)  # here
    right = torch.arange(96)
    for _ in range(50):
        customers, articles = torch.randn(96, 900), torch.randn(96, 600)
        scores = model(customers, articles)
        loss = nn.functional.cross_entropy(scores, right) + nn.functional.cross_entropy(scores.T, right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # here


if __name__ == "__main__":
    main()
