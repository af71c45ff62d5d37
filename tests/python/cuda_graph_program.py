"""A model that is captured into a CUDA graph and launched from it, with the stand-ins of tests/fake:
cuda_graph_program.py FAKES OUT."""

import ctypes
import sys
import time

fakes, out = sys.argv[1:]
cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")
ctypes.CDLL(f"{fakes}/libcuda.so.1")

import torch
from tachograph import _record
from tachograph._collect.native import NativeRecording

library = torch.library.Library("gpu", "DEF")
library.define("project(Tensor x) -> Tensor")


def project(x: torch.Tensor) -> torch.Tensor:
    assert cupti.fake_run(b"capture 11 0\nclone 21 11 0\n") == 0
    return x + 1


library.impl("project", project, "CPU")


class Inner(torch.nn.Module):
    def forward(self, x):
        return torch.ops.gpu.project(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


features = _record.OPS | _record.STACKS | _record.MODULES | _record.CUDA
recording = NativeRecording(out, features, required=_record.OPS | _record.CUDA)
recording.start()
time.sleep(0.03)
Net()(torch.zeros(2))
launched = (
    "runtime -1000000 -900000 311 1 77\n"
    "kernel -800000 -700000 0 1 7 77 5 21 4 1 1 32 1 1 8 0 0 of_graph\n"
    "kernel -600000 -400000 0 1 7 77 5 99 4 1 1 32 1 1 8 0 0 unknown\n"
)
assert cupti.fake_run(launched.encode()) == 0
recording.stop()
