"""What steps take with and without recording: the overhead that a scheduled profiler reports, from the CPU time of
their thread, which other programs disturb little."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from .._measure.series import median_interval, percentile
from .schedule import ProfilerAction

if TYPE_CHECKING:
    from .._collect.record_cost import Price

_RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_ANYHOW_PCT = 5  # half an interval that says enough of whatever cost
_DEAR = (
    1.5  # a window's first step costs more than this times the median of those after it: it is no part of the figures
)
_AFTER = 10


class StepTimes:
    """began() when a step begins, ended(action) when it ends. A first step is left out: it pays for what the program
    does only once; so is a first step of a window that costs far more than those after it, as a recording begins
    there."""

    def __init__(self) -> None:
        self._begin: tuple[int, int] | None = None  # ns: by the clock, CPU time of the thread
        self._first: tuple[int, int] | None = None  # of the window, until those after it are known
        self._after: list[int] = []  # CPU time of those after it
        self._in_window = self._counts = False
        self.window_steps = 0  # of the last window
        self.left_out = 0  # first steps of windows
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
        if action in _RECORDED:
            self.window_steps, self._counts = self.window_steps * self._counts + 1, True
        if self._seen > 1 and action is not ProfilerAction.WARMUP:
            self._add(
                action in _RECORDED, time.perf_counter_ns() - self._begin[0], time.thread_time_ns() - self._begin[1]
            )
        if action is ProfilerAction.RECORD_AND_SAVE:
            self.window_ended()
        self._begin = None

    def _add(self, recorded: bool, ns: int, cpu_ns: int) -> None:
        if recorded and not self._in_window:
            self._first, self._in_window = (ns, cpu_ns), True
            return
        if recorded and len(self._after) < _AFTER:
            self._after.append(cpu_ns)
        _keep(self.with_ns if recorded else self.without_ns, ns)
        _keep(self.cpu_with_ns if recorded else self.cpu_without_ns, cpu_ns)
        if len(self._after) == _AFTER:
            self._judge_first()
        if not recorded:
            self.window_ended()

    def window_ended(self) -> None:
        """After its last step: what comes is another window."""
        self._judge_first()
        self._in_window = self._counts = False

    def _judge_first(self) -> None:
        """With nothing after it, it is all there is."""
        if self._first is not None:
            ns, cpu_ns = self._first
            if self._after and cpu_ns > _DEAR * percentile(self._after, 50):
                self.left_out += 1
            else:
                _keep(self.with_ns, ns)
                _keep(self.cpu_with_ns, cpu_ns)
        self._first, self._after = None, []

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

    def price_words(self, price: Price | None) -> str:
        """What recording adds: by the steps where these are alike, else by the price of the records of a step."""
        interval = self.interval_pct()
        without = percentile(self.cpu_without_ns, 50) if self.cpu_without_ns else 0
        if interval is not None and price is not None:  # other programs came or went between steps of the two kinds
            low, high = price.added_pct(without)
            interval = interval if low <= interval[1] and interval[0] <= high else None
        inflation = self.inflation_pct()
        if interval is not None and inflation is not None and inflation <= 0:  # it makes no step shorter
            return (
                "what recording adds to a step's CPU time is less than the noise "
                f"(95 % interval {interval[0]:+.1f} to {interval[1]:+.1f} %)"
            )
        if interval is not None:
            return (
                f"recording adds {inflation:.1f} % to a step's CPU time "
                f"(95 % interval {interval[0]:+.1f} to {interval[1]:+.1f})"
            )
        if price is not None and without:
            return price.words(without, True, "a step's CPU time")
        if price is not None and self.cpu_with_ns and percentile(self.cpu_with_ns, 50):
            return price.words(percentile(self.cpu_with_ns, 50), False, "a recorded step's CPU time")
        if not self.with_ns or not self.without_ns:
            return ""
        enough = min(len(self.with_ns), len(self.without_ns)) >= 6
        return "what recording adds to a step's CPU time could not be measured here: " + (
            "steps differ too much" if enough else "six of each are needed"
        )

    def words(self, price: Price | None = None) -> str:
        """As part of a sentence; empty without recorded steps, and where nothing is known of their price."""
        result = self.price_words(price)
        if not self.with_ns or not self.without_ns:
            return result
        first = "" if not self.left_out else f", without the first of {'a' if self.left_out == 1 else 'each'} window"
        return (
            f"a step took {percentile(self.with_ns, 50) / 1e6:.3f} ms while recorded (n = {len(self.with_ns)}{first}), "
            f"{percentile(self.without_ns, 50) / 1e6:.3f} ms otherwise (n = {len(self.without_ns)}); {result}"
        )


def _keep(times: list[int], ns: int) -> None:
    times.append(ns)
    del times[:-1000]  # of a long run the newest
