"""A long recording goes through a model piece by piece; what it says about the pieces is kept in a list and joined
once."""

# expect: nothing
import torch
from torch import nn


class Listener(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(320, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.choice = nn.Linear(width, 30)

    def forward(self, recording):
        heard = []
        for piece in recording.split(256):
            heard.append(self.body(piece))
        return self.choice(torch.cat(heard))


def main():
    torch.manual_seed(0)
    model = Listener()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    for _ in range(50):
        recording, wanted = torch.randn(1536, 320), torch.randint(30, (1536,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(recording), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
