#!/usr/bin/env python3
"""CUDA graphs on a real GPU: the kernels of a launched graph name the operator and the module that were captured.

python tests/gpu/gpu_graphs.py      exit status 1 when a promise is broken; figures as lines of JSON"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gpu_promises import in_a_process, run_parts

REPLAYS = 5


def captured_kernels(folder: str) -> list[dict[str, Any]]:
    """Kernels of a model that is captured and launched REPLAYS times while our recorder runs."""
    import tachograph
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()).cuda()
    x = torch.randn(64, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with tachograph.profile(activities=activities, backend="native", with_stack=True, with_modules=True) as profile:
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            model(x)
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
    path = Path(folder, "graph.json")
    profile.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    return [e for e in events if e.get("cat") == "kernel" and e["args"].get("graph node id")]


def labels(folder: str) -> Any:
    kernels = captured_kernels(folder)
    found = {(e["args"].get("captured op"), e["args"].get("captured module")) for e in kernels}
    operators = {op for op, _ in found}
    modules = {str(module).rsplit(" / ", 1)[-1] for _, module in found}
    yield "kernels of each replay", len(kernels), len(kernels) > 0 and len(kernels) % REPLAYS == 0
    yield "operators that captured them", sorted(map(str, operators)), "aten::addmm" in operators and len(operators) > 1
    yield "modules that captured them", sorted(modules), modules == {"Linear_0", "ReLU_0"}


def beside_torch(folder: str) -> Any:
    """torch's collector keeps CUPTI's subscriber: the kernels are there without a name of their operator."""
    kernels, named = in_a_process("one_beside_torch", folder, script=__file__)
    yield "kernels, and those with an operator, after torch.profiler", [kernels, named], kernels > 0 and named == 0


def one_beside_torch(folder: str) -> None:
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        torch.zeros(8, device="cuda").add_(1)
        torch.cuda.synchronize()
    kernels = captured_kernels(folder)
    print(json.dumps([len(kernels), sum("captured op" in e["args"] for e in kernels)]))


PARTS = {f.__name__: f for f in (labels, beside_torch)}
if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        sys.exit(globals()[sys.argv[2]](*sys.argv[3:]))
    sys.exit(run_parts(PARTS, sys.argv[1:]))
