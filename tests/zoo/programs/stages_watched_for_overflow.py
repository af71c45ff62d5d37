"""A compiled model looks behind each of its stages whether a number has become infinite. The condition depends on data,
so what is compiled ends there, five times in each pass."""

# expect: graph-break
import torch
from torch import nn


def watched(x, name):
    if not torch.isfinite(x).all():  # here
        raise FloatingPointError(f"overflow in {name}")
    return x


def stage(width):
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())


class Network(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.stem = nn.Linear(20, width)
        self.stage1, self.stage2, self.stage3, self.stage4 = [stage(width) for _ in range(4)]
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = watched(self.stem(x), "stem")  # here
        x = watched(self.stage1(x), "stage 1")  # here
        x = watched(self.stage2(x), "stage 2")  # here
        x = watched(self.stage3(x), "stage 3")  # here
        x = watched(self.stage4(x), "stage 4")  # here
        return self.head(x).squeeze(1)


def main():
    torch.manual_seed(0)
    network = Network()
    compiled = torch.compile(network, backend="aot_eager")
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.001, fused=True)
    for _ in range(60):
        rows = torch.randn(160, 20)
        optimizer.zero_grad()
        nn.functional.mse_loss(compiled(rows), rows.sum(1)).backward()  # here
        optimizer.step()


if __name__ == "__main__":
    main()
