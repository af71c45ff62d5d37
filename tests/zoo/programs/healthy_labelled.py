"""A transformer with a label around everything it does."""

# expect: nothing
import torch
from torch import nn
from torch.profiler import record_function

model = nn.TransformerEncoder(nn.TransformerEncoderLayer(96, 4, 288, 0.0, batch_first=True), 2)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data = torch.randn(4, 64, 96)
for step in range(48):
    with record_function(f"step {step % 3}"):
        with record_function("clear"):
            optimizer.zero_grad()
        with record_function("forward"):
            out = model(data)
            with record_function("loss"):
                loss = out.square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
