"""Three steps of a training loop in one window: which operators take the time?

Shown: a schedule, labels of your own, the table, a file for the timeline."""

import tachograph as tg
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))

with tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=3, repeat=1), record_shapes=True) as prof:
    for _ in range(6):
        with tg.record_function("forward"):
            loss = nn.functional.cross_entropy(model(images), labels)
        with tg.record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()

print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=8))
prof.export_chrome_trace("first_window.json.gz")
