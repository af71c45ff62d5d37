"""start(), step() and stop() by hand; the four phases of a step are labelled."""

import shim
import torch
from tachograph import profile, record_function, schedule, tensorboard_trace_handler

model = torch.nn.Linear(16, 4).cuda()
loss_fn = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
prof = profile(
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=tensorboard_trace_handler("log"),
    record_shapes=True,
    with_stack=True,
)
prof.start()
for step in range(6):
    x, y = torch.randn(8, 16).cuda(), torch.randint(0, 4, (8,)).cuda()
    with record_function("forward"):
        out = model(x)
    with record_function("loss"):
        loss = loss_fn(out, y)
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    prof.step()
prof.stop()
