"""record_function as a decorator, nested labels, a label that is open while others come and go."""

import shim
import torch
from tachograph import profile, record_function


@record_function("inner")
def inner(x):
    return x.relu()


@record_function("outer")
def outer(x):
    return inner(x) + inner(-x)


with profile() as prof:
    for _ in range(4):
        outer(torch.randn(8))
rows = {row.key: row for row in prof.key_averages()}
print(rows["outer"].count, rows["inner"].count, rows["outer"].cpu_time_total >= rows["inner"].cpu_time_total)
