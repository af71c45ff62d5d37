"""How long steps take with and without recording: the overhead that a scheduled profiler reports."""

from __future__ import annotations

import math
import time

from .._measure.series import median_interval, percentile
from .schedule import ProfilerAction

_RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_SAYS_NOTHING_PCT = 100  # an interval as wide as a step is long


class StepTimes:
    """began() when a step begins, ended(action) when it ends. A first step is left out: it pays for what the program
    does only once."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
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

    def inflation_pct(self) -> float | None:
        """By how much recording makes the median step longer; None where one of both kinds is missing."""
        if not self.with_ns or not self.without_ns:
            return None
        return (percentile(self.with_ns, 50) / percentile(self.without_ns, 50) - 1) * 100

    def interval_pct(self) -> tuple[float, float] | None:
        """That holds the true inflation in 95 of 100 cases, as `tachograph run` says it; None below six steps of either
        kind."""
        with_it, without = median_interval(sorted(self.with_ns)), median_interval(sorted(self.without_ns))
        inflation = self.inflation_pct()
        if inflation is None or with_it is None or without is None:
            return None
        # The two series are independent: their intervals add as the sides of a right triangle.
        (low, high), (low_else, high_else) = with_it, without
        base = percentile(self.without_ns, 50)
        width = math.hypot(high - low, (1 + inflation / 100) * (high_else - low_else)) / base / 2 * 100
        return inflation - width, inflation + width

    def words(self) -> str:
        """As part of a sentence; empty with too few steps."""
        interval = self.interval_pct()
        if interval is None:
            return ""
        result = (
            f"{self.inflation_pct():+.1f} % (95 % interval {interval[0]:+.1f} to {interval[1]:+.1f})"
            if interval[1] - interval[0] < _SAYS_NOTHING_PCT
            else "step times are too noisy to estimate the overhead"
        )
        return (
            f"a step took {percentile(self.with_ns, 50) / 1e6:.3f} ms while recorded (n = {len(self.with_ns)}), "
            f"{percentile(self.without_ns, 50) / 1e6:.3f} ms otherwise (n = {len(self.without_ns)}): {result}"
        )
