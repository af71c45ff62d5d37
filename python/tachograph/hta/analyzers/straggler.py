"""The rows that a notebook's own rule for stragglers looks at."""

from __future__ import annotations

from typing import Any

from ..common.trace import Trace
from .straggler_analysis import iterations


def extract_iteration_info(trace: Trace) -> Any:
    """The rows of all steps and ranks, with a column rank."""
    return iterations(trace, None)
