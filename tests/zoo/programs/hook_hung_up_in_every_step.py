"""To look at what a layer puts out, a hook is hung up before each step; it is never taken down, and what it has caught
stays."""

# expect: memory-leak
# preset: deep
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(200, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
        self.choice = nn.Linear(400, 10)

    def forward(self, x):
        return self.choice(self.features(x))  # here


class Catcher:
    def __init__(self, layer):
        self.layer, self.caught = layer, []

    def hang_up(self):
        self.layer.register_forward_hook(self.catch)  # here

    def catch(self, layer, inputs, output):
        self.caught.append(output.detach().clone())  # here

    def spread(self):
        return self.caught[-1].std()


def main():
    torch.manual_seed(2)
    model = Classifier()
    catcher = Catcher(model.features)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)
    spreads = []
    for _ in range(50):
        catcher.hang_up()
        x, wanted = torch.randn(256, 200), torch.randint(10, (256,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), wanted).backward()
        optimizer.step()
        spreads.append(float(catcher.spread()))


if __name__ == "__main__":
    main()
