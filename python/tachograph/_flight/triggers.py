"""What makes a flight recorder keep its ring: the words of `on`, times held against their median, and how many copies
of a kind there may be."""

from __future__ import annotations

import bisect
import collections
import math
import re
import threading
from collections.abc import Iterable

DEFAULT = ("step > 5x", "exception", "oom", "nan", "signal", "file")
KINDS = ("exception", "oom", "nan", "signal", "file", "http")
WARM = 16  # times before a median says something
KEPT = 128  # times that the median is of
_TIMED = re.compile(r"(step|request)\s*>\s*([0-9.]+)\s*(x|ns|us|ms|s|min)")
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
_SECONDS = re.compile(r"([0-9.]+)\s*(ms|s|min|h)?")


def seconds(name: str, value: float | str) -> float:
    """30, "30s", "5min" → seconds."""
    found = _SECONDS.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError(f'{name}={value!r} is no time: use seconds, or a text such as "30s" or "5min"')
    factor = {"ms": 1e-3, None: 1, "s": 1, "min": 60, "h": 3600}[found[2]] if found else 1
    number = float(found[1]) * factor if found else float(value)
    if not number > 0:
        raise ValueError(f"{name}={value!r}: it is more than nothing")
    return number


class Times:
    """Steps or requests, one after the other, from any thread.

    A time that cannot be too long is only put down: sorting it in waits until WARM of them have come, or until one may
    be. So many can move the median WARM places at most, which `_sure_ns` allows for. If two threads put down times
    while a third sorts in, one time may be forgotten."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.factor: float | None = None  # of the median
        self.most_ns: float | None = None
        self._order: collections.deque[int] = collections.deque()
        self._sorted: list[int] = []
        self._new: list[int] = []  # put down, and not sorted in
        self._sure_ns = 0.0  # up to here none is too long
        self._lock = threading.Lock()

    def observe(self, dur_ns: int) -> str:
        """A sentence when this one is too long, else empty. It is compared with those before it, then is one of
        them."""
        if dur_ns <= self._sure_ns and len(self._new) < WARM:
            self._new.append(dur_ns)
            return ""
        with self._lock:
            new, self._new = self._new, []
            for ns in new:
                self._add(ns)
            count = len(self._sorted)
            median_ns = self._sorted[count // 2] if count else 0
            self._add(dur_ns)
            self._sure_ns = self._find_sure()
        if self.most_ns is not None and dur_ns > self.most_ns:
            return f"a {self.what} took {_shown(dur_ns)}, the limit is {_shown(self.most_ns)}"
        if self.factor is not None and count >= WARM and dur_ns > self.factor * median_ns:
            return (
                f"a {self.what} took {_shown(dur_ns)}, {dur_ns / max(median_ns, 1):.1f} x the median of "
                f"{_shown(median_ns)} (limit {self.factor:g} x)"
            )
        return ""

    def _find_sure(self) -> float:
        count = len(self._sorted)
        if count < WARM:
            return 0.0
        least = self._sorted[max(0, count // 2 - WARM)]
        limits = [self.factor * least] if self.factor is not None else []
        return min(limits + ([self.most_ns] if self.most_ns is not None else []))

    def _add(self, dur_ns: int) -> None:
        if len(self._order) == KEPT:
            del self._sorted[bisect.bisect_left(self._sorted, self._order.popleft())]
        self._order.append(dur_ns)
        bisect.insort(self._sorted, dur_ns)


LONGER = 1.5  # times the step of the last copy: a slowdown that creeps makes few copies


class Quota:
    """The copies of one kind of trigger: at most `most`, none sooner than rest_s after another. Of steps and requests
    the longest are kept: in the rest of a copy one that is LONGER takes its place, and with `most` copies one that is
    longer than the shortest."""

    def __init__(self, most: int, rest_s: float) -> None:
        self.refused = 0
        self._most, self._rest_s = most, rest_s
        self._kept: dict[int, int] = {}  # number of the copy -> how long the step or request was; the last made is last
        self._last_s = -math.inf

    def take(self, number: int, now_s: float, dur_ns: int = 0) -> tuple[str, int]:
        """Why copy `number` is not made, empty when it is; and which copy it replaces, 0 for none."""
        instead, refusal = 0, ""
        if now_s - self._last_s < self._rest_s:
            instead = next(reversed(self._kept))
            if dur_ns == 0 or dur_ns < LONGER * self._kept[instead]:
                refusal = f"the last copy of this kind is less than {self._rest_s:g} s old"
        elif len(self._kept) >= self._most:
            instead = min(self._kept, key=self._kept.__getitem__)
            if dur_ns <= self._kept[instead]:
                refusal = f"this process has made its {self._most} copies of this kind"
        if refusal:
            self.refused += 1
            return refusal, 0
        self._kept.pop(instead, None)
        self._kept[number], self._last_s = dur_ns, now_s
        return "", instead


def _shown(ns: float) -> str:
    unit, factor = next((u, f) for u, f in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)) if ns >= f or f == 1)
    return f"{ns / factor:.3g} {unit}"


def parse(on: Iterable[str]) -> tuple[set[str], dict[str, Times]]:
    """The kinds that are on, and what is watched for its time."""
    kinds: set[str] = set()
    watched: dict[str, Times] = {}
    for word in [on] if isinstance(on, str) else on:
        timed = _TIMED.fullmatch(word.strip())
        if timed:
            times = watched.setdefault(timed[1], Times(timed[1]))
            if timed[3] == "x":
                times.factor = float(timed[2])
            else:
                times.most_ns = float(timed[2]) * _NS[timed[3]]
        elif word.strip() in KINDS:
            kinds.add(word.strip())
        else:
            raise ValueError(
                f"{word!r} is no trigger: there are 'step > 5x', 'step > 500ms', 'request > 3x', 'request > 1s', "
                + ", ".join(map(repr, KINDS))
            )
    return kinds, watched
