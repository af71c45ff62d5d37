"""The counterparts of torch.autograd.profiler, in `tachograph.autograd.profiler`."""

from . import profiler

__all__ = ["profiler"]
