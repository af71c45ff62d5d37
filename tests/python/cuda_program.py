"""An operator in a label that launches, with the stand-ins of tests/fake: cuda_program.py FAKES OUT."""

import ctypes
import sys
import threading
import time

fakes, out = sys.argv[1:]
cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")
ctypes.CDLL(f"{fakes}/libcuda.so.1")

import tachograph as tg
import torch
from tachograph import _record
from tachograph._collect.native import NativeRecording

library = torch.library.Library("gpu", "DEF")
library.define("work(Tensor x) -> Tensor")


def work(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.002)
    thread = threading.get_native_id()
    script = (
        f"runtime -1000000 -900000 211 {thread} 77\n"
        "kernel -800000 -700000 0 1 7 77 0 0 4 1 1 32 1 1 8 0 0 first\n"
        "kernel -600000 -500000 0 1 7 77 0 0 4 1 1 32 1 1 8 0 0 second\n"
        f"runtime -400000 -300000 131 {thread} 78\n"
    )
    assert cupti.fake_run(script.encode()) == 0
    return x + 1


library.impl("work", work, "CPU")
recording = NativeRecording(out, _record.OPS | _record.CUDA, required=_record.OPS | _record.CUDA)
recording.start()
time.sleep(0.03)
with torch.profiler.record_function("batch"):
    torch.ops.gpu.work(torch.zeros(2))
recording.stop()
tg.open(out).export(f"{out}.json")
