"""record_function: labels a block, in tables and on the timeline."""
from __future__ import annotations

try:
    from ._record import record_function
except ImportError:  # a build without the recorder
    from torch.autograd.profiler import record_function

__all__ = ["record_function"]
