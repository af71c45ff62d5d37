"""What steps take with and without recording: the overhead that a scheduled profiler reports, from the CPU time of
their thread, which other programs disturb little."""

from __future__ import annotations

import math
import time

from .._measure.series import median_interval, percentile
from .schedule import ProfilerAction

_RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_ANYHOW_PCT = 5  # half an interval that says enough of whatever cost


class StepTimes:
    """began() when a step begins, ended(action) when it ends. A first step is left out: it pays for what the program
    does only once."""

    def __init__(self) -> None:
        self._begin: tuple[int, int] | None = None  # ns: by the clock, CPU time of the thread
        self._seen = 0
        self.with_ns: list[int] = []
        self.without_ns: list[int] = []
        self.cpu_with_ns: list[int] = []
        self.cpu_without_ns: list[int] = []

    def began(self) -> None:
        self._begin = time.perf_counter_ns(), time.thread_time_ns()

    def ended(self, action: ProfilerAction) -> None:
        if self._begin is None:
            return
        self._seen += 1
        if self._seen > 1 and action is not ProfilerAction.WARMUP:
            recorded = action in _RECORDED
            _keep(self.with_ns if recorded else self.without_ns, time.perf_counter_ns() - self._begin[0])
            _keep(self.cpu_with_ns if recorded else self.cpu_without_ns, time.thread_time_ns() - self._begin[1])
        self._begin = None

    def inflation_pct(self) -> float | None:
        """By how much recording adds to the CPU time of the median step; None where one of both kinds is missing."""
        if not self.cpu_with_ns or not self.cpu_without_ns or not percentile(self.cpu_without_ns, 50):
            return None
        return (percentile(self.cpu_with_ns, 50) / percentile(self.cpu_without_ns, 50) - 1) * 100

    def interval_pct(self) -> tuple[float, float] | None:
        """That holds the true inflation in 95 of 100 cases, as `tachograph run` says it; None below six steps of either
        kind, and where it says less than a factor of 1.5: then the overhead could not be measured."""
        with_it, without = median_interval(sorted(self.cpu_with_ns)), median_interval(sorted(self.cpu_without_ns))
        inflation = self.inflation_pct()
        if inflation is None or with_it is None or without is None:
            return None
        # The two series are independent: their intervals add as the sides of a right triangle.
        (low, high), (low_else, high_else) = with_it, without
        base = percentile(self.cpu_without_ns, 50)
        width = math.hypot(high - low, (1 + inflation / 100) * (high_else - low_else)) / base / 2 * 100
        # Recording cannot make a step shorter: where it seems to, the program's own steps differ.
        if width > max(_ANYHOW_PCT, inflation / 3) or inflation + width < 0:
            return None
        return inflation - width, inflation + width

    def words(self) -> str:
        """As part of a sentence; empty where steps of one kind are missing."""
        if not self.with_ns or not self.without_ns:
            return ""
        inflation, interval = self.inflation_pct(), self.interval_pct()
        result = (
            f"recording adds {inflation:.1f} % to a step's CPU time "
            f"(95 % interval {interval[0]:+.1f} to {interval[1]:+.1f})"
            if interval is not None
            else "what recording adds to a step's CPU time could not be measured here: "
            + (
                "steps differ too much"
                if min(len(self.with_ns), len(self.without_ns)) >= 6
                else "six of each are needed"
            )
        )
        return (
            f"a step took {percentile(self.with_ns, 50) / 1e6:.3f} ms while recorded (n = {len(self.with_ns)}), "
            f"{percentile(self.without_ns, 50) / 1e6:.3f} ms otherwise (n = {len(self.without_ns)}); {result}"
        )


def _keep(times: list[int], ns: int) -> None:
    times.append(ns)
    del times[:-1000]  # of a long run the newest
