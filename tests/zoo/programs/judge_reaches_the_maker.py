"""A judge learns to tell true samples from made ones, and its backward pass goes on into the maker of the latter, which
does not learn from it."""

# expect: unneeded-gradient
import torch
from torch import nn


def generator(noise, width, sample):
    return nn.Sequential(
        nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, sample), nn.Tanh(),
    )  # fmt: skip


def discriminator(sample, width):
    return nn.Sequential(nn.Linear(sample, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))


def main():
    torch.manual_seed(4)
    maker, judge = generator(64, 768, 400), discriminator(400, 128)
    of_maker = torch.optim.Adam(maker.parameters(), lr=0.0002, betas=(0.5, 0.999), fused=True)
    of_judge = torch.optim.Adam(judge.parameters(), lr=0.0002, betas=(0.5, 0.999), fused=True)
    loss = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(160, 1), torch.zeros(160, 1)
    true = torch.rand(160, 400) * 2 - 1
    for _ in range(60):
        # The judge: true samples are ones, made ones are zeros.
        noise = torch.randn(160, 64)
        made = maker(noise)  # here
        of_judge.zero_grad()
        of_true = loss(judge(true), ones)
        of_made = loss(judge(made), zeros)
        (of_true + of_made).backward()  # here
        of_judge.step()

        # The maker: what it makes shall be taken for true.
        of_maker.zero_grad()
        noise = torch.randn(160, 64)
        loss(judge(maker(noise)), ones).backward()
        of_maker.step()


if __name__ == "__main__":
    main()
