"""Each clip of a batch is standardised by itself, and all are stacked."""

# expect: per-sample-loop, many-small-ops
import torch
from torch import nn


def make(fast):
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(320, 640), nn.GELU(), nn.Linear(640, 320), nn.GELU(), nn.Linear(320, 20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    clips = 3 * torch.randn(400, 320) + 1

    def standardised():
        if fast:
            return (clips - clips.mean(1, keepdim=True)) / clips.std(1, keepdim=True)
        return torch.stack([(clip - clip.mean()) / clip.std() for clip in clips])

    def step():
        optimizer.zero_grad()
        model(standardised()).square().mean().backward()
        optimizer.step()

    return step
