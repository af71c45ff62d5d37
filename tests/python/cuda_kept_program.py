"""Models that are captured into CUDA graphs while nothing is recorded, and launched in a recording that begins later,
with the stand-ins of tests/fake: cuda_kept_program.py FAKES OUT. Prints what was kept, as JSON.

A graph for each size of batch, as servers of language models have them; each node is captured by an operator in a
module of one of the layers."""

import ctypes
import gc
import json
import sys
import time

fakes, out = sys.argv[1:]
cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")
ctypes.CDLL(f"{fakes}/libcuda.so.1")
cupti.fake_number.restype = ctypes.c_uint64

import tachograph as tg
import torch
from tachograph import _record
from tachograph._collect.native import NativeRecording

GRAPHS, LAYERS = 16, 24
graph_class = torch.cuda.CUDAGraph
graph_class.capture_begin = lambda graph, *args: None  # without a device torch's own refuse
graph_class.capture_end = lambda graph: None
library = torch.library.Library("gpu", "DEF")
captured = []  # (node, operator, module, function of its line)
number, size = 0, 0


def play(script):
    assert cupti.fake_run(script.encode()) == 0


def made(op, layer, module, function):
    """The operator launches its kernel: a node, if a graph is captured."""
    global number
    if size:
        number += 1
        node = size << 32 | number
        play(f"capture {node} 0\nclone {(size + 1000) << 32 | number} {node} 0\n")
        captured.append(((size + 1000) << 32 | number, op, (layer, module), function))


where = 0, "", ""


def operator(name):
    library.define(f"{name}(Tensor x) -> Tensor")

    def run(x: torch.Tensor) -> torch.Tensor:
        made(f"gpu::{name}", *where)
        return x + 1

    library.impl(name, run, "CPU")


for name in ("project", "attend", "norm"):
    operator(name)


class Project(torch.nn.Module):
    def __init__(self, layer, name):
        super().__init__()
        self.where = layer, name, "forward"

    def forward(self, x):
        global where
        where = self.where
        return torch.ops.gpu.project(x)


class Layer(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.up, self.down = Project(layer, "up"), Project(layer, "down")

    def forward(self, x):
        global where
        x = self.up(x)
        where = self.layer, "", "forward"
        x = torch.ops.gpu.attend(x)
        x = torch.ops.gpu.norm(x)
        return self.down(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(i) for i in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


tg.keep_graphs("16M")
assert graph_class.capture_begin.__module__ == "tachograph._collect.kept_graphs"
net = Net()
net(torch.zeros(2))  # warm-up: no graph
assert not cupti.fake_number(b"subscribed")
for size in range(1, GRAPHS + 1):
    graph_class.capture_begin(size)
    net(torch.zeros(2))
    graph_class.capture_end(size)
    play(f"destroy_graph {size}")
size = 0
kept = _record.graphs_kept()
assert not _record.state()["open"] and cupti.fake_number(b"enabled") == 0

gone = Net()  # a model that is captured, and whose modules are gone when the recording begins
size = 500
graph_class.capture_begin(size)
gone(torch.zeros(2))
graph_class.capture_end(size)
del gone
gc.collect()
size = 0

features = _record.OPS | _record.STACKS | _record.MODULES | _record.CUDA
recording = NativeRecording(out, features, required=_record.OPS | _record.CUDA)
recording.start()
time.sleep(0.03)
told = cupti.fake_number(b"told")
script = "runtime -9000000 -8900000 311 1 77\n"
for i, (node, *_) in enumerate(captured):
    start = -8800000 + i * 1000
    script += f"kernel {start} {start + 500} 0 1 7 77 {node >> 32} {node} 4 1 1 32 1 1 8 0 0 k{i}\n"
play(script)
told = cupti.fake_number(b"told") - told
recording.stop()
tg.keep_graphs(0)
print(
    json.dumps(
        {
            "kept": kept,
            "graphs": GRAPHS,
            "told": told,
            "captured": captured,
            "subscribed": cupti.fake_number(b"subscribed"),
            "called": cupti.fake_number(b"called"),
            "after": _record.graphs_kept(),
            "off": graph_class.capture_begin.__module__,
        }
    )
)
