"""An encoder: what holds the memory at the peak, and what would checkpointing a layer save?

Shown: memory by category and by layer, and the question about checkpoints."""

import tachograph as tg
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = nn.TransformerEncoder(layer, 4)
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(8, 32, 64)

with tg.profile(profile_memory=True, record_shapes=True, with_stack=True, with_modules=True) as prof:
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

print(prof.trace.ask("memory_blocks", by="category"))
print(prof.trace.ask("memory_blocks", by="layer", limit=6))
print(prof.trace.ask("checkpoint", limit=4))
