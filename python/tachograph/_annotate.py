"""record_function: labels a block, in tables and on the timeline."""
from __future__ import annotations

try:
    from . import _dynamo
    from ._record import record_function
except ImportError:  # a build without the recorder
    from torch.autograd.profiler import record_function
else:
    _dynamo.teach()

__all__ = ["record_function"]
