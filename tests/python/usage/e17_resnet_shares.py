"""One training step of a residual network: FLOPs, a trace, and the shares of convolution, normalisation and the
rest."""

import shim
import torch
from torch import nn
import tachograph as tg


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    *(Block(8) for _ in range(4)),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 10),
).to("cuda")
x, y = torch.randn(2, 3, 16, 16, device="cuda"), torch.randint(0, 10, (2,), device="cuda")
with tg.profile(with_flops=True, record_shapes=True) as prof:
    nn.functional.cross_entropy(model(x), y).backward()
prof.export_chrome_trace("resnet.json")
shares = {"conv": 0.0, "bn": 0.0, "other": 0.0}
for row in prof.key_averages():
    kind = (
        "conv"
        if "conv" in row.key.lower()
        else "bn"
        if "batch_norm" in row.key.lower() or "batchnorm" in row.key.lower()
        else "other"
    )
    shares[kind] += row.self_cpu_time_total
total = sum(shares.values())
print({kind: us / total for kind, us in shares.items()})
print("sum", sum(us / total for us in shares.values()))
print("flops", sum(row.flops for row in prof.key_averages() if row.flops))
