"""A machine with a CUDA device, as far as a script can tell: imported first, it lets scripts written for one run on the
CPU. `.cuda()` and device="cuda" mean the CPU, events are moments of a monotonic clock, synchronising is nothing, and
the memory counters of the device are those of CPU tensors. torch.cuda.is_available() still tells the truth."""

import functools
import gc
import os
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
torch.set_num_threads(1)
torch.manual_seed(0)


def on_cpu(device):
    return "cpu" if str(device).startswith("cuda") else device


def _without_cuda(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        return function(*args, **kwargs)

    return call


def _moved(function):
    @functools.wraps(function)
    def to(self, *args, **kwargs):
        args = tuple(on_cpu(a) if isinstance(a, (str, torch.device)) else a for a in args)
        kwargs.pop("non_blocking", None)
        return _without_cuda(function)(self, *args, **kwargs)

    return to


class Event:
    def __init__(self, enable_timing=False, **_):
        self.moment = None

    def record(self, stream=None):
        self.moment = time.perf_counter()

    def elapsed_time(self, end):
        return (end.moment - self.moment) * 1e3

    def synchronize(self):
        pass

    def query(self):
        return True


def _live_bytes(*_):
    """Bytes of all tensors there are, each storage once."""
    with torch.no_grad():
        found = {
            t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
            for t in gc.get_objects()
            if type(t) is torch.Tensor or type(t) is torch.nn.Parameter
        }
    return sum(found.values())


for _name in ("randn", "rand", "zeros", "ones", "empty", "full", "tensor", "arange", "randint"):
    setattr(torch, _name, _without_cuda(getattr(torch, _name)))
torch.Tensor.to, torch.nn.Module.to = _moved(torch.Tensor.to), _moved(torch.nn.Module.to)
torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self
if hasattr(
    getattr(torch, "_streambase", None), "_EventBase"
):  # torch 2.4: dynamo, which optimizers import, needs an event of torch's own class
    import torch._dynamo
torch.cuda.Event = Event
torch.cuda.synchronize = torch.cuda.empty_cache = torch.cuda.reset_peak_memory_stats = lambda *_: None
torch.cuda.memory_allocated = torch.cuda.max_memory_allocated = torch.cuda.memory_reserved = _live_bytes
torch.cuda.get_device_name = lambda *_: "shim"
torch.cuda.current_device = lambda: 0


class _Nvtx:
    """The library below torch.cuda.nvtx: it counts how deep the ranges lie."""

    depth = 0

    def rangePushA(self, message):
        self.depth += 1
        return self.depth - 1

    def rangePop(self):
        self.depth -= 1
        return self.depth

    def markA(self, message):
        pass


def nvtx():
    """torch.cuda.nvtx works, on a build without CUDA too."""
    import torch.cuda.nvtx

    if torch.version.cuda is None:
        torch.cuda.nvtx._nvtx = _Nvtx()


def leave_rank():
    """The end of a rank. One that torch's collector recorded leaves here: it keeps the process group, whose threads may
    want the GIL while the interpreter ends, and abort it (pytorch#190489)."""
    if os.environ.get("TACHOGRAPH_BACKEND") == "kineto":
        os._exit(0)
