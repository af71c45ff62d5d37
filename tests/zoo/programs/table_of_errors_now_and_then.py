"""Every 20th step the errors so far are written as a table, line by line in Python."""

# expect: periodic-stall
import torch
from torch import nn

EVERY = 20


def table(errors):
    lines = []
    for k, error in enumerate(errors):  # here
        bar = "".join("#" if error * 40 > i else " " for i in range(120))  # here
        lines.append(f"{k:6d} {error:9.5f} {bar}")  # here
    return "\n".join(lines)


def main():
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    errors, last = [1.0] * 1500, ""
    for step in range(160):
        x = torch.randn(64, 64)
        if step % EVERY == EVERY - 1:
            last = table(errors)  # here
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    return last


if __name__ == "__main__":
    main()
