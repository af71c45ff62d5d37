"""What a test may cost: "< 30 ms", "<= 200", "baseline +10%". Times are ns, sizes bytes."""

from __future__ import annotations

import re
from typing import NamedTuple

# quantity → (unit, what it is). Those in ns depend on the machine and on its load; the others do not.
QUANTITIES = {
    "step_p50": ("ns", "median length of a step"),
    "step_p90": ("ns", "90 of 100 steps are no longer"),
    "step_p99": ("ns", "99 of 100 steps are no longer"),
    "step_mean": ("ns", "mean length of a step"),
    "step_max": ("ns", "longest step"),
    "ops": ("", "operators a step"),
    "kernels": ("", "kernels, copies and memsets a step"),
    "allocs": ("", "allocations of tensors a step"),
    "alloc_bytes": ("B", "bytes allocated for tensors a step"),
    "peak_bytes": ("B", "most bytes allocated at once since the first step, of the device with most"),
}
MEMORY = {"allocs", "alloc_bytes", "peak_bytes"}  # need the allocations recorded
_FACTORS: dict[str, dict[str, float]] = {
    "ns": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "B": {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "": {"": 1},
}
_ABSOLUTE = re.compile(r"\s*(<=?)\s*([0-9][0-9_]*\.?[0-9]*(?:e[+-]?\d+)?)\s*(\S*)\s*")
_RELATIVE = re.compile(r"\s*baseline\s*(?:\+\s*([0-9.]+)\s*%)?\s*")


class Limit(NamedTuple):
    quantity: str
    text: str  # as it was written
    below: bool  # "<"; else "<="
    value: float | None  # None: relative to the baseline, by so many percent more
    more_pct: float

    @property
    def is_time(self) -> bool:
        return QUANTITIES[self.quantity][0] == "ns"

    def bound(self, baseline: float | None) -> float:
        if self.value is not None:
            return self.value
        if baseline is None:
            raise ValueError(f"{self.quantity}: there is no baseline")
        return baseline * (1 + self.more_pct / 100)

    def holds(self, figure: float, baseline: float | None) -> bool:
        bound = self.bound(baseline)
        return figure < bound if self.below else figure <= bound


def parse(quantity: str, text: object) -> Limit:
    """ValueError says what is wrong with it."""
    if quantity not in QUANTITIES:
        raise ValueError(f"{quantity!r} is no quantity: there are {', '.join(QUANTITIES)}")
    unit = QUANTITIES[quantity][0]
    words = str(text)
    relative = _RELATIVE.fullmatch(words)
    if relative:
        return Limit(quantity, words.strip(), False, None, float(relative[1] or 0))
    absolute = _ABSOLUTE.fullmatch(words)
    factors = _FACTORS[unit]
    if not absolute or absolute[3] not in factors:
        units = ", ".join(name for name in factors if name)
        raise ValueError(
            f"{quantity}={text!r}: a limit is '< 30{' ms' if unit == 'ns' else ''}' or 'baseline +10%'"
            + (f"; units: {units}" if units else "; it is a count, without a unit")
        )
    return Limit(quantity, words.strip(), absolute[1] == "<", float(absolute[2]) * factors[absolute[3]], 0.0)


def shown(quantity: str, value: float) -> str:
    """30400000 → 30.4 ms"""
    unit = QUANTITIES[quantity][0]
    if unit == "ns":
        factor, name = next(
            (f, n) for n, f in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)) if value >= f or f == 1
        )
        return f"{value / factor:.3g} {name}"
    if unit == "B":
        factor, name = next(
            (f, n) for n, f in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)) if value >= f or f == 1
        )
        return f"{value / factor:.4g} {name}"
    return f"{value:g}"
