"""How long steps take with and without recording: what a scheduled profiler can say of its own price."""
from __future__ import annotations

import time
from statistics import median
from typing import Optional

from ._schedule import ProfilerAction

_RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class StepTimes:
    """began() when a step begins, ended(action) when it ends. A first step is left out: it pays for what the program does only once."""

    def __init__(self) -> None:
        self._begin_ns: Optional[int] = None
        self._seen = 0
        self.with_ns: list[int] = []
        self.without_ns: list[int] = []

    def began(self) -> None:
        self._begin_ns = time.perf_counter_ns()

    def ended(self, action: ProfilerAction) -> None:
        if self._begin_ns is None:
            return
        self._seen += 1
        if self._seen > 1 and action is not ProfilerAction.WARMUP:
            kept = self.with_ns if action in _RECORDED else self.without_ns
            kept.append(time.perf_counter_ns() - self._begin_ns)
            del kept[:-1000]  # of a long run the newest
        self._begin_ns = None

    def inflation_pct(self) -> Optional[float]:
        """By how much recording makes the median step longer; None where one of both kinds is missing."""
        if not self.with_ns or not self.without_ns:
            return None
        return (median(self.with_ns) / median(self.without_ns) - 1) * 100

    def words(self) -> str:
        """As part of a sentence; empty when nothing is known."""
        inflation = self.inflation_pct()
        if inflation is None:
            return ""
        return (f"recording made the step {abs(inflation):.1f} % {'longer' if inflation >= 0 else 'shorter'} "
                f"({median(self.with_ns) / 1e6:.3f} ms, median of {len(self.with_ns)}, against {median(self.without_ns) / 1e6:.3f} ms, "
                f"median of {len(self.without_ns)} without)")
