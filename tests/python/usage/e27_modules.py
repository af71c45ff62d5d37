"""Time by module: labels put around every leaf by hooks, and the module path of each operator."""

import shim
import torch
import tachograph as tg

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
open_labels = []
for name, module in model.named_modules():
    if not list(module.children()):
        module.register_forward_pre_hook(
            lambda m, args, name=name: open_labels.append(tg.record_function(f"module_{name}").__enter__())
        )
        module.register_forward_hook(lambda m, args, out: open_labels.pop().__exit__(None, None, None))
with tg.profile(record_shapes=True, with_modules=True) as prof:
    for _ in range(3):
        model(torch.randn(8, 16))
for row in prof.key_averages():
    if row.key.startswith("module_"):
        print(row.key, row.count, row.cpu_time_total)
print(prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=10))
