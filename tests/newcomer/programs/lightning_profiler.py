"""Lightning's own option: Trainer(profiler=…) makes the profiler and steps it."""

import time

import one_window

name = one_window.give_to_libraries()

import lightning as L
import torch
from lightning.pytorch.profilers import PyTorchProfiler
from lightning_fit import Net, loader, quiet

began = time.perf_counter()
profiler = None
if name:
    plan = torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1)
    profiler = PyTorchProfiler(schedule=plan, record_shapes=True, export_to_chrome=False, row_limit=-1)
L.Trainer(max_epochs=1, accelerator="cpu", devices=1, profiler=profiler, **quiet).fit(Net(), loader)
if name:
    assert "aten::addmm" in profiler.summary()
    one_window.say(profiler.function_events.key_averages(group_by_input_shapes=True), began)
else:
    print('{"done": true}')
