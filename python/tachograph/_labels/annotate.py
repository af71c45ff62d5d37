"""record_function: labels a block, in tables and on the timeline. forward(make): while torch's own collector records,
labels are made by make(name, args); forward(None) ends that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from .._record import forward, record_function
    from . import dynamo as _dynamo
except ImportError:  # a build without the recorder
    from torch.autograd.profiler import record_function  # type: ignore[assignment]  # the same calls, another class

    def forward(make: Callable[..., Any] | None, /) -> None:
        """Labels are torch's in any case."""
else:
    _dynamo.teach()

__all__ = ["forward", "record_function"]
