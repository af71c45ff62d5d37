"""A detector marks points of an image; its loss is written out as a formula, one pass over all points for each sign."""

# expect: unfused-elementwise, unfused-loss
import torch
from torch import nn

CLASSES = 16


class Detector(nn.Module):
    """How likely it is that each point is the middle of a thing of each class."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, stride=2)
        self.second = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.choice = nn.Conv2d(32, CLASSES, 1)

    def forward(self, images):
        return self.choice(self.second(self.first(images).relu()).relu())


def focal_loss(scores, wanted, alpha=0.25, gamma=2.0):
    likely = 1 / (1 + torch.exp(-scores))  # here
    likely = torch.clamp(likely, 1e-5, 1 - 1e-5)  # here
    of_true = -torch.log(likely) * wanted  # here
    of_false = -torch.log(1 - likely) * (1 - wanted)  # here
    right = likely * wanted + (1 - likely) * (1 - wanted)  # here
    weight = alpha * wanted + (1 - alpha) * (1 - wanted)  # here
    return (weight * (1 - right) ** gamma * (of_true + of_false)).sum() / wanted.sum().clamp(min=1)  # here


def main():
    torch.manual_seed(2)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    for _ in range(50):
        images = torch.randn(8, 3, 256, 256)
        wanted = (torch.rand(8, CLASSES, 64, 64) > 0.995).float()
        optimizer.zero_grad()
        loss = focal_loss(model(images), wanted)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
