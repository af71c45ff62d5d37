#!/usr/bin/env python3
"""NVTX on a real GPU: what a program says with torch.cuda.nvtx is in the recording, and what emit_nvtx sends reaches
another tool.

    python tests/gpu/gpu_nvtx.py      exit status 1 when a promise is broken; figures as lines of JSON"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_promises import recorded, run_parts

ROOT = Path(__file__).parents[2]
STEPS = 50
VARIABLE = "NVTX_INJECTION64_PATH"


def in_a_process(function: str, path: Path, **variables: str) -> None:
    """NVTX looks for its tool once a process."""
    words = [sys.executable, __file__, "--call", function, str(path)]
    subprocess.run(words, env={**os.environ, **variables}, check=True, timeout=200)


# ---- ranges of the program ---------------------------------------------------------------------------------


def record_ranges(path: str) -> None:
    import torch
    from torch.cuda import nvtx

    x = torch.ones(256, 256, device="cuda")
    levels = []
    with recorded("native", Path(path)):
        for number in range(STEPS):
            levels.append(nvtx.range_push(f"outer {number}"))
            x @ x
            levels.append(nvtx.range_push("inner"))
            x.relu()
            nvtx.mark("here")
            span = nvtx.range_start("span")
            levels.append(nvtx.range_pop())
            levels.append(nvtx.range_pop())
            nvtx.range_end(span)
    Path(path + ".levels").write_text(json.dumps(levels))


def end_of(event: dict[str, Any]) -> float:
    return float(event["ts"] + event.get("dur", 0))


def is_inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return bool(outer["ts"] <= inner["ts"] and end_of(inner) <= end_of(outer))


def ranges(folder: str) -> Any:
    from tachograph import _record

    path = Path(folder, "ranges.json")
    in_a_process("record_ranges", path, **{VARIABLE: _record.__file__})
    events = json.loads(path.read_text())["traceEvents"]
    labels = sorted((e for e in events if e.get("cat") == "user_annotation"), key=lambda e: e["ts"])
    outer = [e for e in labels if e["name"].startswith("outer ")]
    inner, here, span = ([e for e in labels if e["name"] == name] for name in ("inner", "here", "span"))
    counts = [len(x) for x in (outer, inner, here, span)]
    yield "NVTX: as many ranges, marks and spans as were made", counts, counts == [STEPS] * 4
    names = [e["name"] for e in outer]
    yield "NVTX: in their order", len(names), names == [f"outer {n}" for n in range(STEPS)]
    nested = sum(is_inside(i, o) and is_inside(h, i) for o, i, h in zip(outer, inner, here, strict=False))
    yield "NVTX: nested as they were pushed", nested, nested == STEPS
    across = sum(end_of(s) >= end_of(o) for s, o in zip(span, outer, strict=False))
    yield "NVTX: spans end behind what was popped before them", across, across == STEPS
    levels = json.loads(Path(f"{path}.levels").read_text())
    yield "NVTX: levels that push and pop return", levels[:4], levels == [0, 1, 1, 0] * STEPS
    on_streams = sum(e.get("cat") == "gpu_user_annotation" and e["name"] == "inner" for e in events)
    yield "NVTX: labels on the stream that they launched work on", on_streams, on_streams == STEPS


# ---- what emit_nvtx sends ----------------------------------------------------------------------------------


def emit(path: str) -> None:
    import tachograph
    import torch
    from tachograph.autograd.profiler import emit_nvtx

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()).cuda()
    x = torch.ones(2, 3, device="cuda")
    model(x).sum().backward()
    with tachograph.modules(model), emit_nvtx(record_shapes=True):
        loss = model(x).sum()
        with tachograph.record_function("mine"):
            x.relu()
        loss.backward()


def emitted(folder: str) -> Any:
    path, tool = Path(folder, "emitted"), Path(folder, "libnvtx_tool.so")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        yield "emit_nvtx: a compiler for the stand-in of Nsight", None, False
        return
    source = ROOT / "tests" / "standin" / "nvtx_tool.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tool, source], check=True)
    in_a_process("emit", path, **{VARIABLE: str(tool), "NVTX_TOOL_FILE": str(path)})
    lines = path.read_text().splitlines()
    pushed = [line.removeprefix("push ") for line in lines if line.startswith("push ")]
    pops = lines.count("pop")
    yield "emit_nvtx: as many ends as beginnings", [len(pushed), pops], len(pushed) == pops > 10
    relu = [text for text in pushed if text.startswith("aten::relu")]
    sizes = sum("sizes = [[2, 3]]" in text for text in relu)
    yield "emit_nvtx: operators with their sizes", relu, len(relu) == sizes == 2
    forward = re.search(r"seq = (\d+)", next((t for t in pushed if t.startswith("aten::sum")), ""))
    backward = re.search(r"seq = (\d+)", next((t for t in pushed if t.startswith("SumBackward0")), ""))
    same = bool(forward and backward and forward[1] == backward[1])
    yield (
        "emit_nvtx: forward and backward by one sequence number",
        [forward and forward[1], backward and backward[1]],
        same,
    )
    labels = [text.split(",")[0] for text in pushed if text.startswith(("module_", "mine"))]
    yield "emit_nvtx: labels and modules", labels, labels == ["module_0", "module_1", "mine"]


PARTS = {"ranges": ranges, "emitted": emitted}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        globals()[sys.argv[2]](*sys.argv[3:])
        sys.exit(0)
    sys.exit(run_parts(PARTS, sys.argv[1:]))
