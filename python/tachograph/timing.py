"""Timing done right: of a block, of a call, of a loop; with the same code on the CPU and on a device.

    with tg.timer() as t: model(x)
    print(t.ms)
    print(tg.latency(model, x))              # median, p95, p99, …; evaluation mode, no gradients, warmed up
    print(tg.throughput(model, loader))      # samples/s over the batches there really were

On a device the time is taken by events of the device, not by the host, which only starts the work."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ._measure.device import Clock, resolve, tensors_in, torch_module
from ._measure.series import Series, Stats, percentile

__all__ = [
    "timer",
    "latency",
    "throughput",
    "warm_up",
    "Latency",
    "Throughput",
    "Warmup",
    "Series",
    "Stats",
    "percentile",
]


def __getattr__(name: str) -> Any:
    """Names of the version before."""
    if name != "settled":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("settled is now is_stable; the next version does not know the old name", FutureWarning, stacklevel=2)
    return is_stable


class timer:
    """Time of a with-block, or of the calls of a function it decorates.

    t.ms and t.ns are the last time, t.series all of them. On a device, reading them waits until the device has come
    that far; the block itself never does. device: default is the accelerator where there is one."""

    def __init__(self, device: Any = None):
        if callable(device):
            raise TypeError(
                "timer(device=None) times a block, or what it decorates as @timer(); of calls of a function: latency(function)"
            )
        self._given = device
        self._clock: Clock | None = None
        self._begun: list[Any] = []
        self._pairs: list[tuple[Any, Any]] = []
        self._times_ns: list[int] = []

    @property
    def clock(self) -> str:
        """Which clock it was: "host clock", "cuda events", …"""
        return self._the_clock().name

    def _the_clock(self) -> Clock:
        if self._clock is None:
            self._clock = Clock(resolve(self._given))
        return self._clock

    def __enter__(self) -> timer:
        self._begun.append(self._the_clock().mark())
        return self

    def __exit__(self, *_: Any) -> None:
        end = self._the_clock().mark()
        self._pairs.append((self._begun.pop(), end))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return timed

    @property
    def series(self) -> Series:
        while self._pairs:
            self._times_ns.append(self._the_clock().ns_between(*self._pairs.pop(0)))
        return Series(self._times_ns)

    @property
    def ns(self) -> int:
        times = self.series.times_ns
        if not times:
            raise RuntimeError("the timer has not measured anything yet: read it after the with-block")
        return times[-1]

    @property
    def ms(self) -> float:
        return self.ns / 1e6

    def __repr__(self) -> str:
        return f"{self.series!r} [{self.clock}]"


# ---- warm-up -----------------------------------------------------------------------------------------------


class Warmup(NamedTuple):
    """runs: how many calls were made; stable: whether the last ones agreed with each other."""

    runs: int
    stable: bool
    times_ns: list[int]

    def __str__(self) -> str:
        first, last = self.times_ns[0] / 1e6 if self.times_ns else 0, self.times_ns[-1] / 1e6 if self.times_ns else 0
        how = "until the times agreed" if self.stable else "and the times still did not agree"
        return f"warm-up: {self.runs} runs {how} (first {first:.2f} ms, last {last:.2f} ms)"


def is_stable(times_ns: list[int], k: int, tolerance: float) -> bool:
    """Do the last k times agree, and with the k/2 before them? One run in k may be an outlier: machines hiccup."""
    if len(times_ns) < k + k // 2:
        return False
    last = sorted(times_ns[-k:])
    median = last[k // 2]
    near = [t for t in last if abs(t - median) <= tolerance * median]
    before = sorted(times_ns[-k - k // 2 : -k])
    return len(near) >= k - 1 and abs(before[len(before) // 2] - median) <= 2 * tolerance * median


def warm_up(
    call: Callable[[], Any],
    *,
    device: Any = None,
    least: int = 3,
    most: int = 100,
    k: int = 5,
    tolerance: float = 0.1,
    seconds: float = 30.0,
) -> Warmup:
    """Call until the last k runs agree within the tolerance: at least `least` times, at most `most` times or so many
    seconds."""
    clock = Clock(resolve(device))
    times_ns: list[int] = []
    deadline = time.monotonic() + seconds
    while len(times_ns) < most and time.monotonic() < deadline:
        begin = clock.mark()
        call()
        times_ns.append(clock.ns_between(begin, clock.mark()))
        if len(times_ns) >= least and is_stable(times_ns, k, tolerance):
            return Warmup(len(times_ns), True, times_ns)
    return Warmup(len(times_ns), False, times_ns)


def _warm(call: Callable[[], Any], device: Any, runs: int | str) -> Warmup | None:
    if runs == "auto":
        return warm_up(call, device=device)
    if not isinstance(runs, int) or runs < 0:
        raise ValueError(f"warmup is a number of runs or 'auto', not {runs!r}")
    clock = Clock(resolve(device))
    for _ in range(runs):
        call()
    clock.wait()
    return None


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode and no gradients while measuring, and every submodule's own mode back afterwards. A plain
    function runs as it is."""
    if not (hasattr(model, "modules") and hasattr(model, "eval")):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch_module().no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


# ---- latency -----------------------------------------------------------------------------------------------


class Latency(Series):
    """Times of single calls; warmup: number of calls before, clock: what measured."""

    def __init__(self, times_ns: Iterable[int], warmup: Warmup | None, clock: str):
        super().__init__(times_ns)
        self.warmup, self.clock = warmup, clock

    def __repr__(self) -> str:
        return super().__repr__() + (f"\n{self.warmup}" if self.warmup else "") + f"\n[{self.clock}]"


def latency(
    call: Any, *args: Any, iterations: int = 100, warmup: int | str = "auto", device: Any = None, **kwargs: Any
) -> Latency:
    """Time of call(*args, **kwargs), one call at a time, waiting for the device after each.

    A module is put into evaluation mode without gradients meanwhile; a function runs as it is. warmup: a number of runs
    that are not counted, or "auto", which stops when they agree."""
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    where = resolve(device, call, args, kwargs)
    clock = Clock(where)
    once = functools.partial(call, *args, **kwargs)
    times_ns = []
    with _evaluating(call):
        warmed = _warm(once, where, warmup)
        for _ in range(iterations):
            clock.wait()
            begin = clock.mark()
            once()
            times_ns.append(clock.ns_between(begin, clock.mark()))
    return Latency(times_ns, warmed, clock.name)


# ---- throughput --------------------------------------------------------------------------------------------


class Throughput(NamedTuple):
    samples: int
    batches: int
    seconds: float
    samples_per_s: float
    ms_per_batch: float
    warmup: Warmup | None
    clock: str

    def __str__(self) -> str:
        return (
            f"{self.samples_per_s:.1f} samples/s, {self.ms_per_batch:.2f} ms a batch "
            f"({self.batches} batches, {self.samples} samples in {self.seconds:.2f} s)"
            + (f"\n{self.warmup}" if self.warmup else "")
        )


def batch_samples(batch: Any) -> int:
    """Samples in a batch: the first dimension of its first tensor, else its length."""
    for tensor in tensors_in(batch):
        return int(tensor.shape[0]) if tensor.ndim else 1
    return len(batch) if hasattr(batch, "__len__") else 1


def _feed(call: Any, batch: Any) -> Any:
    """A function gets the batch as the loader made it; a module its first part: what a loader makes is (inputs,
    labels)."""
    if hasattr(call, "forward") and isinstance(batch, (list, tuple)) and len(batch):
        return call(batch[0])
    return call(batch)


def throughput(
    call: Any,
    batches: Iterable[Any],
    *,
    most: int = 100,
    warmup: int | str = "auto",
    samples: Callable[[Any], int] = batch_samples,
    device: Any = None,
) -> Throughput:
    """Samples a second of call(batch) over the batches, at most `most` of them; the time to fetch a batch is part of
    it.

    What counts is the number of batches that really came. Warm-up uses the first batch, again and again, before the
    clock runs; pass warmup=0 when a call must not be repeated, as a training step must not."""
    begun = time.perf_counter_ns()
    fetch = iter(batches)
    batch = next(fetch, None)
    # The first fetch is work like any other, but for worker processes it is their start, which comes once in an epoch.
    first_fetch_ns = 0 if getattr(batches, "num_workers", 0) else time.perf_counter_ns() - begun
    if batch is None or most < 1:
        raise ValueError("there is no batch to measure with")
    where = resolve(device, call, batch)
    clock = Clock(where)
    count = total = 0
    with _evaluating(call):
        warmed = _warm(functools.partial(_feed, call, batch), where, warmup)
        clock.wait()
        begin = clock.mark()
        while batch is not None:
            _feed(call, batch)
            count, total = count + 1, total + samples(batch)
            batch = next(fetch, None) if count < most else None
        seconds = (clock.ns_between(begin, clock.mark()) + first_fetch_ns) / 1e9
    return Throughput(total, count, seconds, total / seconds, 1000 * seconds / count, warmed, clock.name)
