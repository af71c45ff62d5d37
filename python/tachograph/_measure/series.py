"""What a series of measured times says: percentiles, spread, a confidence interval, and whether it may be trusted at
all.

Percentiles are numpy's default ones (linear interpolation), to the last bit; std is numpy's too (of the population)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

UNSTABLE_SPREAD = 0.10  # quartile distance over median above which a series is called unstable
BIMODAL_GAP = 5.0  # distance between the means of two clusters, in their own standard deviations
SHARE_OF_A_MODE = 0.1  # the smaller cluster must hold this share of the values
DRIFT = 0.05  # the second half is slower or faster than the first by this share


def percentile(values: Sequence[float], percent: float) -> float:
    """As numpy.percentile(values, percent); values need not be sorted."""
    return _percentile_of_sorted(sorted(values), percent)


def _percentile_of_sorted(ordered: Sequence[float], percent: float) -> float:
    if not ordered:
        return math.nan
    place = (len(ordered) - 1) * (percent / 100)
    below = min(int(place), len(ordered) - 1)
    a, b, share = ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below
    return b - (b - a) * (1 - share) if share >= 0.5 else a + (b - a) * share


class Stats(NamedTuple):
    """Of a series; in its unit. ci95: interval that holds the true median in 95 of 100 cases; None below 6 values."""

    n: int
    mean: float
    std: float
    median: float
    min: float
    max: float
    p50: float
    p95: float
    p99: float
    ci95: tuple[float, float] | None


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median only from the order of the values: no assumption about how they are
    distributed."""
    n = len(ordered)
    if n < 6:
        return None  # even the interval from the smallest to the largest value holds less than 95 %
    outside, below = 0.0, 0
    term = 0.5**n if n < 1000 else 0.0
    if not term:
        below = max(0, int((n - 1.96 * math.sqrt(n)) / 2))
        return ordered[below], ordered[n - 1 - below]
    while outside + term <= 0.025:
        outside += term
        term *= (n - below) / (below + 1)
        below += 1
    return ordered[below - 1], ordered[n - below]


def stats_of(values: Iterable[float]) -> Stats:
    ordered = sorted(values)
    n = len(ordered)
    if not n:
        nan = math.nan
        return Stats(0, nan, nan, nan, nan, nan, nan, nan, nan, ci95=None)
    mean = math.fsum(ordered) / n
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in ordered) / n)
    p50, p95, p99 = (_percentile_of_sorted(ordered, p) for p in (50, 95, 99))
    return Stats(n, mean, std, p50, ordered[0], ordered[-1], p50, p95, p99, median_interval(ordered))


def verdict(values: Sequence[float], unit: str = " ms") -> str:
    """ "stable", or one sentence about why the median of these values says little. values in the order they were
    measured."""
    if len(values) < 6:
        return f"too few: {len(values)} values say nothing about their spread"
    ordered = sorted(values)
    modes = _two_modes(ordered)
    if modes:
        return f"bimodal: {modes[0]:.3g}{unit} and {modes[1]:.3g}{unit}; two things are being measured, and the median is one of them"
    half = len(values) // 2
    first, second = percentile(values[:half], 50), percentile(values[-half:], 50)
    spread = _percentile_of_sorted(ordered, 75) - _percentile_of_sorted(ordered, 25)
    if abs(second - first) > DRIFT * first and abs(second - first) > spread / 2:
        return (
            f"drifting: the second half has a median of {second:.3g}{unit}, the first {first:.3g}{unit}; warm up longer"
        )
    median = _percentile_of_sorted(ordered, 50)
    if median > 0 and spread > UNSTABLE_SPREAD * median:
        return f"unstable: the middle half spreads over {100 * spread / median:.0f} % of the median; measure on a quiet machine"
    return "stable"


def _two_modes(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Means of the two clusters, when cutting the series in two leaves clusters far apart for their width."""
    n, least = len(ordered), max(2, math.ceil(SHARE_OF_A_MODE * len(ordered)))
    sums, squares = [0.0], [0.0]
    for value in ordered:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def scatter(start: int, end: int) -> float:
        total = sums[end] - sums[start]
        return max(0.0, squares[end] - squares[start] - total * total / (end - start))

    cuts = range(least, n - least + 1)
    if not cuts:
        return None
    cut = min(cuts, key=lambda k: scatter(0, k) + scatter(k, n))
    low, high = sums[cut] / cut, (sums[n] - sums[cut]) / (n - cut)
    width = math.sqrt((scatter(0, cut) + scatter(cut, n)) / n)
    return (low, high) if high - low > BIMODAL_GAP * width and high - low > UNSTABLE_SPREAD * low else None


class Series:
    """Measured times. numpy.asarray(series) returns milliseconds in the order they were measured."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # the fields of Stats, which are properties of this class, too
            ...

    def __init__(self, times_ns: Iterable[int]):
        self.times_ns = list(times_ns)
        self._ms = [t / 1e6 for t in self.times_ns]

    def __len__(self) -> int:
        return len(self._ms)

    def __iter__(self) -> Iterator[float]:
        return iter(self._ms)

    def __getitem__(self, index: Any) -> Any:
        return self._ms[index]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy

        return numpy.array(self._ms, dtype=dtype or numpy.float64)

    @property
    def stats(self) -> Stats:
        return stats_of(self._ms)

    @property
    def verdict(self) -> str:
        return verdict(self._ms)

    @property
    def stable(self) -> bool:
        return self.verdict == "stable"

    def percentile(self, percent: float) -> float:
        return percentile(self._ms, percent)

    def __repr__(self) -> str:
        s = self.stats
        if not s.n:
            return "nothing was measured"
        factor, unit = (1e3, "us") if s.median < 0.1 else (1, "ms")

        def shown(ms: float) -> str:
            return f"{factor * ms:.3f}"

        interval = f", 95 % interval {shown(s.ci95[0])}…{shown(s.ci95[1])}" if s.ci95 else ""
        lines = [
            f"median {shown(s.median)} {unit}{interval} (n = {s.n})",
            f"mean {shown(s.mean)} ± {shown(s.std)} {unit}, min {shown(s.min)}, p95 {shown(s.p95)}, p99 {shown(s.p99)}, max {shown(s.max)}",
        ]
        if not self.stable:
            lines.append(self.verdict)
        return "\n".join(lines)


def _statistic(field: str) -> property:
    return property(lambda series: getattr(series.stats, field), doc=f"stats.{field}")


# Every statistic is also an attribute of the series itself: latency.p99.
for _field in Stats._fields:
    setattr(Series, _field, _statistic(_field))
