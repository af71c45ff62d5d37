"""Words are spotted in sound. The window that each frame is weighed with comes from numpy, and everything behind it up
to the model is worked out in doubles."""

# expect: dtype-promotion
import numpy as np
import torch
from torch import nn

FRAME, HOP, BANDS = 512, 128, 40


class Spectra(nn.Module):
    """The logarithm of the energy in each band of each frame."""

    def __init__(self):
        super().__init__()
        self.window = torch.from_numpy(np.hanning(FRAME))  # here
        edges = np.linspace(0, FRAME // 2 + 1, BANDS + 1).astype(int)
        self.bands = torch.zeros(FRAME // 2 + 1, BANDS, dtype=torch.float64)  # here
        for band, (low, high) in enumerate(zip(edges[:-1], edges[1:])):
            self.bands[low:high, band] = 1 / (high - low)

    def forward(self, sound):
        frames = sound.unfold(1, FRAME, HOP) * self.window  # here
        energy = torch.fft.rfft(frames).abs().square()  # here
        return (energy @ self.bands + 1e-6).log().float()  # here


class Spotter(nn.Module):
    def __init__(self, words=20, width=96):
        super().__init__()
        self.spectra = Spectra()
        self.body = nn.Sequential(
            nn.Conv1d(BANDS, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(),
        )  # fmt: skip
        self.choice = nn.Linear(width, words)

    def forward(self, sound):
        return self.choice(self.body(self.spectra(sound).transpose(1, 2)).mean(2))


def main():
    torch.manual_seed(0)
    spotter = Spotter()
    optimizer = torch.optim.AdamW(spotter.parameters(), lr=0.001, fused=True)
    for _ in range(40):
        sound, wanted = torch.randn(24, 16000), torch.randint(20, (24,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(spotter(sound), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
