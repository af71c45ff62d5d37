"""For a curve of how sure the model is, every batch goes through it eight more times with other neurons dropped."""

# expect: repeated-forward
import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self, width=300):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(90, width), nn.GELU(), nn.Dropout(0.2),
            nn.Linear(width, width), nn.GELU(), nn.Dropout(0.2),
            nn.Linear(width, width), nn.GELU(), nn.Dropout(0.2),
        )  # fmt: skip
        self.value = nn.Linear(width, 1)

    def forward(self, x):
        return self.value(self.body(x)).squeeze(1)


def doubt(model, x, times=8):
    with torch.no_grad():
        answers = torch.stack([model(x) for _ in range(times)])  # here
    return answers.std(0).mean()


def main():
    torch.manual_seed(9)
    model, curve = Regressor(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    for _ in range(70):
        x = torch.randn(128, 90)
        wanted = x[:, :8].prod(1)
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(model(x), wanted).backward()
        optimizer.step()
        curve.append(float(doubt(model, x)))  # here
    print(min(curve) <= max(curve))


if __name__ == "__main__":
    main()
