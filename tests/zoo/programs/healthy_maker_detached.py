"""A judge learns from samples whose maker ran without a graph, and the maker learns through the judge."""

# expect: nothing
import torch
from torch import nn


def main():
    torch.manual_seed(4)
    wide = [m for _ in range(3) for m in (nn.Linear(600, 600), nn.ReLU())]
    maker = nn.Sequential(nn.Linear(64, 600), nn.ReLU(), *wide, nn.Linear(600, 400), nn.Tanh())
    judge = nn.Sequential(nn.Linear(400, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    of_maker = torch.optim.Adam(maker.parameters(), lr=0.0002, fused=True)
    of_judge = torch.optim.Adam(judge.parameters(), lr=0.0002, fused=True)
    loss = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(256, 1), torch.zeros(256, 1)
    true = torch.rand(256, 400) * 2 - 1
    for _ in range(60):
        with torch.no_grad():
            made = maker(torch.randn(256, 64))
        of_judge.zero_grad()
        (loss(judge(true), ones) + loss(judge(made), zeros)).backward()
        of_judge.step()

        judge.requires_grad_(False)
        of_maker.zero_grad()
        loss(judge(maker(torch.randn(256, 64))), ones).backward()
        of_maker.step()
        judge.requires_grad_(True)


if __name__ == "__main__":
    main()
