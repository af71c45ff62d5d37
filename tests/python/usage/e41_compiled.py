"""The same function eager and compiled, under autocast, with its profile."""

import shim
import torch
import tachograph as tg


def f(x, w):
    return torch.nn.functional.gelu(x @ w).sum()


x, w = torch.randn(32, 32), torch.randn(32, 32)
for name, call in (("eager", f), ("compiled", torch.compile(f, backend="eager"))):
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        call(x, w)
        with tg.profile() as prof:
            call(x, w)
    rows = {row.key: row.count for row in prof.key_averages()}
    print(name, rows.get("aten::gelu"), round(prof.key_averages().self_cpu_time_total))
