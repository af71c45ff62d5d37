"""A kernel timed by two events, with the synchronisation done right; then by tg.timer, which does it by itself."""

import shim
import torch
import tachograph as tg

a = torch.randn(256, 256, device="cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
b = a @ a
end.record()
torch.cuda.synchronize()
print("events ms", start.elapsed_time(end))
with tg.timer() as t:
    b = a @ a
print("timer ms", t.ms)
