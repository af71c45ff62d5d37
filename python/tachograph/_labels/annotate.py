"""record_function: labels a block, in tables and on the timeline. forward(make): while torch's own collector records,
labels are made by make(name, args); forward(None) ends that. Where another profiler of torch watches the thread, or
observed(1) said that one watches all, a label of ours begins torch's own as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._imports import when_imported

try:
    from .._record import forward, observed, record_function, watch
    from . import dynamo as _dynamo
except ImportError:  # a build without the recorder
    from torch.autograd.profiler import record_function  # type: ignore[assignment]  # the same calls, another class

    def forward(make: Callable[..., Any] | None, /) -> None:
        """Labels are torch's in any case."""

    def observed(more: int, /) -> None:
        """So many more observers watch all threads."""
else:
    _dynamo.teach()

    def _watch() -> None:
        from .._torch_own import record_function as theirs

        watch(theirs)

    when_imported("torch", _watch)

__all__ = ["forward", "observed", "record_function"]
