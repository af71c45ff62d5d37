"""The requests of a process: begun and ended from any thread or coroutine, the last of them kept."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import gc
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from .._collect.machine_use import core_wait_ns
from .._measure.series import percentile

KEPT = 10_000
SLOW_PCT = 95.0  # what lies above this percentile is called slow; below 40 requests: the slowest
_F = TypeVar("_F", bound=Callable[..., Any])


class Request(NamedTuple):
    """One request. Times are ns; cpu_ns and core_wait_ns are unknown (None) where it left its thread, as coroutines
    do."""

    name: str
    began_ns: int  # time.time_ns()
    dur_ns: int  # with the time in the queue
    queue_ns: int  # before we saw it, where the caller said since when it waits
    phases: dict[str, int]  # ns by phase
    gc_ns: int  # pauses of the garbage collector meanwhile, on whatever thread: they hold the GIL
    cpu_ns: int | None
    core_wait_ns: int | None  # its thread was ready and had no core
    batch: int | None
    others: int  # requests that were being served when it began
    ok: bool

    def parts(self) -> dict[str, int]:
        """What its time went into; the rest is "waiting" where its own CPU time is known, else "other". A pause of the
        collector, or a wait for a core, that fell into a phase counts there too."""
        parts = {"queue": self.queue_ns, **self.phases}
        rest = max(self.dur_ns - sum(parts.values()), 0)
        if self.phases or self.cpu_ns is None or self.core_wait_ns is None:
            return {**parts, "other": rest}
        on_core, no_core = min(self.cpu_ns, rest), min(self.core_wait_ns, max(rest - self.cpu_ns, 0))
        return {
            **parts,
            "on a core": on_core,
            "no core": no_core,
            "waiting (GIL, locks, I/O)": rest - on_core - no_core,
        }


class _Open:
    """A request that is being served."""

    __slots__ = (
        "began",
        "batch",
        "cpu",
        "gc",
        "labels",
        "name",
        "now",
        "ok",
        "others",
        "phases",
        "queue",
        "thread",
        "wait",
    )

    def __init__(self, name: str, queue_ns: int, others: int, gc_ns: int) -> None:
        self.name, self.queue, self.others, self.gc = name, max(queue_ns, 0), others, gc_ns
        self.phases: dict[str, int] = {}
        self.batch: int | None = None
        self.ok = True
        self.labels: list[Any] = []
        self.thread, self.wait, self.cpu = threading.get_ident(), core_wait_ns(), time.thread_time_ns()
        self.began, self.now = time.time_ns(), time.perf_counter_ns()


_open: contextvars.ContextVar[_Open | None] = contextvars.ContextVar("tachograph_request", default=None)


class Requests:
    """Statistics of all requests since it was made or cleared, and the last 10 000 of them."""

    def __init__(self, kept: int = KEPT) -> None:
        self.listeners: list[Callable[[Request], Any]] = []  # called with each request that ended, on its thread
        self._kept: collections.deque[Request] = collections.deque(maxlen=kept)
        self._lock = threading.Lock()
        self._gc_ns, self._gc_since = 0, 0
        self._watches_gc = False
        self.clear()

    def clear(self) -> None:
        """Forget what was measured; requests that are being served count from their end on."""
        with self._lock:
            self._kept.clear()
            self.count, self.failed, self.most_at_once = 0, 0, 0
            self.served_ns, self.idle_ns, self.idle_times = 0, 0, 0
            self._first_ns, self._last_end_ns = 0, 0
            self.active = getattr(self, "active", 0)

    # ---- measuring

    def begin(self, name: str, queue_ns: int = 0, async_: bool = False) -> _Open:
        """queue_ns: how long it waited before. async_: it may go on on another thread, or share this one."""
        now = time.perf_counter_ns()
        with self._lock:
            if not self._watches_gc:
                self._watches_gc = True
                gc.callbacks.append(self._collected)
            if self.active == 0 and self._last_end_ns:
                self.idle_ns += now - self._last_end_ns
                self.idle_times += 1
            self._first_ns = self._first_ns or now
            others = self.active
            self.active += 1
            self.most_at_once = max(self.most_at_once, self.active)
            number = self.count + others
        opened = _Open(name, queue_ns, others, self._gc_ns)
        _label(opened, number)
        if async_:
            opened.thread = 0
        return opened

    def end(self, opened: _Open, ok: bool = True) -> Request:
        now = time.perf_counter_ns()
        while opened.labels:
            opened.labels.pop().__exit__(None, None, None)
        cpu_ns = wait_ns = None
        if opened.thread == threading.get_ident():
            waited = core_wait_ns()
            cpu_ns = time.thread_time_ns() - opened.cpu
            wait_ns = waited - opened.wait if waited is not None and opened.wait is not None else None
        ended = Request(
            opened.name,
            opened.began,
            now - opened.now + opened.queue,
            opened.queue,
            opened.phases,
            self._gc_ns - opened.gc,
            cpu_ns,
            wait_ns,
            opened.batch,
            opened.others,
            ok and opened.ok,
        )
        with self._lock:
            self.active -= 1
            self.count += 1
            self.failed += not ended.ok
            self.served_ns += now - opened.now
            self._last_end_ns = now
            self._kept.append(ended)
        flight = sys.modules.get("tachograph._flight.ring_recorder")
        recorder = flight.current() if flight is not None else None
        if recorder is not None:
            recorder.request_took(ended.dur_ns, opened.name)
        for listener in self.listeners:
            listener(ended)
        return ended

    @contextlib.contextmanager
    def serve(self, name: str, queue_ns: int = 0, async_: bool = False) -> Iterator[_Open]:
        """A request is served in this block. Set `.batch`, or `.ok = False`, of the object."""
        opened = self.begin(name, queue_ns, async_)
        token = _open.set(opened)
        ok = False
        try:
            yield opened
            ok = True
        finally:
            with contextlib.suppress(ValueError):  # a generator that was closed in another context
                _open.reset(token)
            self.end(opened, ok)

    def _collected(self, what: str, _info: Any) -> None:
        now = time.perf_counter_ns()
        if what == "start":
            self._gc_since = now
        elif self._gc_since:
            self._gc_ns += now - self._gc_since
            self._gc_since = 0

    # ---- answers

    @property
    def kept(self) -> list[Request]:
        with self._lock:
            return list(self._kept)

    def percentiles(self) -> dict[str, float]:
        """p50, p95 and p99 of the requests that are kept, in ms; nan without any."""
        times = [r.dur_ns / 1e6 for r in self.kept]
        return {f"p{p}": percentile(times, p) for p in (50, 95, 99)}

    def slow(self) -> list[Request]:
        """Those above the 95th percentile, the slowest first; at least one."""
        ordered = sorted(self.kept, key=lambda r: -r.dur_ns)
        return ordered[: max(1, int(len(ordered) * (100 - SLOW_PCT) / 100))] if ordered else []

    @property
    def concurrency(self) -> float:
        """Requests served at once, on average from the first to the last."""
        span = self._last_end_ns - self._first_ns
        return self.served_ns / span if span > 0 else 0.0

    def report(self) -> str:
        """The page: percentiles, concurrency, idle time, and where the slow requests differ from the median half."""
        kept = self.kept
        if not kept:
            return "no request was served"
        p = self.percentiles()
        span_s = (self._last_end_ns - self._first_ns) / 1e9
        idle_pct = 100 * self.idle_ns / 1e9 / max(span_s, 1e-9)
        shown = ", ".join(f"{name} {ms:.3g} ms" for name, ms in p.items())
        lines = [
            f"requests  {self.count:,} in {span_s:.3g} s, {self.failed} failed, {shown}",
            f"at once   {self.concurrency:.2f} on average, {self.most_at_once} at most",
            f"idle      {self.idle_ns / 1e9:.3g} s between requests ({idle_pct:.1f} %), {self.idle_times} times",
            "",
            *self._comparison(kept),
        ]
        return "\n".join(lines)

    def _comparison(self, kept: list[Request]) -> list[str]:
        slow = self.slow()
        typical = sorted(kept, key=lambda r: r.dur_ns)[len(kept) // 4 : max(len(kept) * 3 // 4, 1)] or kept
        lines = [f"{'mean ms':<28}{'typical':>10}{'slow':>10}{'more':>10}   (slow: the {len(slow)} longest)"]
        before, after = _mean_parts(typical), _mean_parts(slow)
        rows = [(name, before.get(name, 0.0) / 1e6, after.get(name, 0.0) / 1e6) for name in {**after, **before}]
        for name, a, b in sorted(rows, key=lambda row: row[1] - row[2]):
            lines.append(f"{name:<28}{a:>10.3f}{b:>10.3f}{b - a:>+10.3f}")
        whole = [_mean(of, lambda r: r.dur_ns) / 1e6 for of in (typical, slow)]
        lines.append(f"{'request':<28}{whole[0]:>10.3f}{whole[1]:>10.3f}{whole[1] - whole[0]:>+10.3f}")
        for what, value, factor in (
            ("of it, CPU time", lambda r: r.cpu_ns or 0, 1e6),
            ("of it, no core", lambda r: r.core_wait_ns or 0, 1e6),
            ("garbage collector meanwhile", lambda r: r.gc_ns, 1e6),
            ("others at its begin", lambda r: r.others, 1),
            ("batch", lambda r: r.batch or 0, 1),
        ):
            a, b = _mean(typical, value) / factor, _mean(slow, value) / factor
            if a or b:
                lines.append(f"{what:<28}{a:>10.3f}{b:>10.3f}{b - a:>+10.3f}")
        return lines


def _mean(of: list[Request], value: Callable[[Request], float]) -> float:
    return sum(value(r) for r in of) / len(of)


def _mean_parts(of: list[Request]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for r in of:
        for name, ns in r.parts().items():
            sums[name] = sums.get(name, 0) + ns
    return {name: ns / len(of) for name, ns in sums.items()}


def _label(opened: _Open, number: int) -> None:
    """In a recording the request is a step, and what it is called stands in it."""
    record = sys.modules.get("tachograph._record")
    if record is None or not record.state()["running"]:
        return
    for name in (f"ProfilerStep#{number}", opened.name):
        label = record.record_function(name)
        label.__enter__()
        opened.labels.append(label)


requests = Requests()


def report() -> str:
    """Of all requests of this process; see Requests.report()."""
    return requests.report()


def current() -> _Open | None:
    """The request that the caller works for."""
    return _open.get()


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """A part of the request that is being served: "preprocess", "forward", … Outside of a request it does nothing but
    label."""
    opened = _open.get()
    record = sys.modules.get("tachograph._record")
    label = record.record_function(name) if record is not None and record.state()["running"] else None
    if label is not None:
        label.__enter__()
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        spent = time.perf_counter_ns() - began
        if label is not None:
            label.__exit__(None, None, None)
        if opened is not None:
            opened.phases[name] = opened.phases.get(name, 0) + spent


def request(function: _F) -> _F:
    """A decorator: each call is a request of the function's name. Coroutines too."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def served_async(*args: Any, **kwargs: Any) -> Any:
            with requests.serve(name, async_=True):
                return await function(*args, **kwargs)

        return served_async  # type: ignore[return-value]

    @functools.wraps(function)
    def served(*args: Any, **kwargs: Any) -> Any:
        with requests.serve(name):
            return function(*args, **kwargs)

    return served  # type: ignore[return-value]
