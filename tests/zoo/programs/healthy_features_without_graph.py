"""The features of noisy pictures come from a network that has learnt elsewhere: it runs once for each batch, without a
graph, and a head learns from them."""

# expect: nothing
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())

    @torch.no_grad()
    def forward(self, pictures):
        return self.layers(pictures)


def main():
    torch.manual_seed(0)
    backbone = Backbone().eval().requires_grad_(False)
    head = nn.Sequential(nn.Linear(384, 512), nn.ReLU(), nn.Linear(512, 384), nn.ReLU(), nn.Linear(384, 10))
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.001, fused=True)
    for _ in range(50):
        pictures, wanted = torch.randn(512, 256), torch.randint(10, (512,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(backbone(pictures)), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
