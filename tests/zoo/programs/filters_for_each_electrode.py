"""Signals of 41 electrodes go through filters over time that keep one channel for each electrode."""

# expect: unaligned-sizes
import torch
from torch import nn

ELECTRODES = 41


def block(channels):
    return nn.Sequential(
        nn.Conv1d(channels, channels, 5, padding=2),  # here
        nn.ReLU(),
        nn.Conv1d(channels, channels, 5, padding=2),  # here
        nn.ReLU(),
    )


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([block(ELECTRODES) for _ in range(3)])
        self.choice = nn.Linear(ELECTRODES, 4)

    def forward(self, signal):
        for layers in self.blocks:
            signal = signal + layers(signal)  # here
        return self.choice(signal.mean(2))


def main():
    torch.manual_seed(4)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    for _ in range(50):
        signal, wanted = torch.randn(24, ELECTRODES, 640), torch.randint(4, (24,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(signal), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
