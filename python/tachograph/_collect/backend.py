"""One window of recording, whoever collects it: our own recorder, or torch's collector (Kineto) where ours cannot.

A window has a private folder that lives as long as the object; what is in there is opened by tachograph.open."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import TachographError, Trace, open as open_trace
from .._say import info, log, warn_once
from .config import ExperimentalConfig, ProfilerActivityConfig
from .export import write_chrome

if TYPE_CHECKING:
    from .record_cost import Price

BACKENDS = ("auto", "native", "kineto")
# Does "auto" record CUDA devices with our recorder? docs/gpu.md says what has been measured on a device.
NATIVE_CUDA = True


def records_cuda() -> bool:
    """Does our recorder take work on torch's device "cuda"? Not where that is an AMD device."""
    torch = sys.modules.get("torch")
    return NATIVE_CUDA and not getattr(getattr(torch, "version", None), "hip", None)


@dataclass(frozen=True)
class Recipe:
    """What to record."""

    activities: frozenset[Any]
    activity_configs: dict[Any, ProfilerActivityConfig] = field(default_factory=dict)
    use_device: str | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False  # every Python call, and the stack of each operator
    stack_per_op: bool = False  # the stack of each operator, without every Python call
    with_flops: bool = False
    with_modules: bool = False
    process: bool = False  # pauses of the garbage collector, CPU time and memory of the process
    experimental: ExperimentalConfig = field(default_factory=ExperimentalConfig)
    memory_budget: int = 0  # bytes, 0 = the recorder's default
    disk_budget: int = 0
    keep: str = "first"  # what stays when the disk budget is used up
    post_processing_timeout_s: float | None = None

    @property
    def records_cpu(self) -> bool:
        return any(a.name == "CPU" for a in self.activities)

    def only_kineto(self) -> str | None:
        """Why this cannot be recorded by our own recorder, None if it can."""
        if self.use_device and not (self.use_device == "cuda" and records_cuda()):
            return f"work on {self.use_device} is collected by torch's own collector"
        if any(c.activity_types is not None for c in self.activity_configs.values()):
            return "single activity types are selected by torch's own collector"
        if self.experimental.performance_events:
            return "performance events are counted by torch's own collector"
        return None


class _CountWhenRead:
    """A field that holds a number, or a function that counts when the field is first read."""

    def __get__(self, stats: Any, owner: type) -> int:
        if stats is None:
            return 0  # the default of the field
        if callable(value := vars(stats)["number_of_events"]):
            value = vars(stats)["number_of_events"] = value()
        return value

    def __set__(self, stats: Any, value: int | Callable[[], int]) -> None:
        vars(stats)["number_of_events"] = value


@dataclass
class ProfilerStats:
    """Timing of the profiler itself, with the fields of torch's _ProfilerStats."""

    profiling_window_duration_sec: float = 0
    number_of_events: Any = _CountWhenRead()  # of the newest window; 0 until its events are built
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


class Busy(RuntimeError):
    """Another recorder is active in this process."""


class Recording:
    """A window: prepared when made, then start(), stop(); or drop() instead. Base of NativeWindow and KinetoWindow."""

    kind = ""

    def __init__(self, recipe: Recipe, trace_id: str) -> None:
        self.recipe, self.trace_id = recipe, trace_id
        self.stats = ProfilerStats()
        self.metadata: dict[str, str] = {}
        self.event_count = self.lost = 0
        kept = "newest" if recipe.keep == "last" else "first"
        self.why_lost = (
            f"the budget was used up (memory_budget=, disk_budget= of profile()); the {kept} events are kept"
        )
        self.running = False
        self.thread = 0  # that started it
        self.pid = os.getpid()
        self._trace: Trace | None = None
        self._first_path: str | None = None
        self._written: set[str] = set()  # metadata that is in the file already
        self.began_ns = self.ended_ns = 0  # of the window, by time.perf_counter_ns
        self.cpu_ns = 0  # that the process used in the window
        self.directory = tempfile.mkdtemp(prefix=f"tachograph-{self.pid}-")
        self._remove = weakref.finalize(self, _remove_directory, self.directory, self.pid)
        _claim(self)
        try:
            self.stats.profiler_prepare_call_duration_us = _timed(self._prepare)
        except BaseException:
            self._end()
            raise

    # what a kind of window does
    def _prepare(self) -> None: ...
    def _start(self) -> None: ...
    def _stop(self) -> None: ...
    def _drop(self) -> None: ...
    def check_stop(self) -> None:
        """Raises when this thread cannot stop it."""

    def _toggle(self, enable: bool, activities: Any) -> None: ...
    def count_words(self) -> str:
        """How much was recorded; empty when it is not known."""
        return ""

    def price(self, parts: int) -> Price | None:
        """What recording costs each of so many equal parts of the window; None where that is not known."""
        return None

    def _file(self) -> str:
        """The finished file or folder; written now if need be."""
        raise NotImplementedError

    def start(self) -> None:
        self.thread = threading.get_native_id()
        try:
            self.stats.profiler_enable_call_duration_us = _timed(self._start)
        except Warning:  # the program turns warnings into errors: no block is entered that would stop it
            self.drop()
            raise
        self.running = True
        self.began_ns, self.cpu_ns = time.perf_counter_ns(), -time.process_time_ns()

    def stop(self) -> None:
        self.check_stop()
        self.ended_ns = time.perf_counter_ns()
        self.cpu_ns += time.process_time_ns()
        self.stats.profiling_window_duration_sec = (self.ended_ns - self.began_ns) / 1e9
        self.running = False
        try:
            self.stats.profiler_disable_call_duration_us = _timed(self._stop)
        finally:
            _release(self)
        if self.lost:
            log.warning("%s records were lost: %s", f"{self.lost:,}", self.why_lost)

    def drop(self) -> None:
        """Abandon a window that was prepared and never started."""
        try:
            self._drop()
        finally:
            self._end()

    def _end(self) -> None:
        _release(self)
        self._remove()

    def toggle(self, enable: bool, activities: Any) -> None:
        if self.running:
            self._toggle(enable, activities)

    def add_metadata(self, key: str, json_text: str) -> None:
        self.metadata[key] = json_text
        self._written.discard(key)

    def trace(self) -> Trace:
        """The window as an open trace; opened once."""
        if self._trace is None:
            began = time.perf_counter()
            if not os.path.isdir(self.directory):
                raise FileNotFoundError(
                    f"the folder of this recording, {self.directory}, was removed before it was read, and the records with it; "
                    "set TMPDIR to a place that nothing tidies up"
                )
            try:
                self._trace = open_trace(self._file())
            except TachographError as e:
                if e.code != "NO_EVENTS":
                    raise
                self._trace = open_trace(self._nothing())
            self.event_count = sum(self._trace.ask("tracks")["slices"])
            self.stats.parse_kineto_call_duration_us = int((time.perf_counter() - began) * 1e6)
        return self._trace

    def _nothing(self) -> str:
        """The file of an empty window, which is no error here: its only event marks the end of the window."""
        path = os.path.join(self.directory, "nothing.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '{"schemaVersion":1,"deviceProperties":[],"displayTimeUnit":"ms","baseTimeNanoseconds":0,"traceEvents":['
                '{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":0}]}'
            )
        self._written.clear()
        return path

    def export_chrome(self, path: str) -> None:
        trace = self.trace()
        self._first_path = self._first_path or path
        late = {key: text for key, text in self.metadata.items() if key not in self._written}
        size = write_chrome(trace, path, self._first_path, late)
        info(f"{path} ({size}, {self.event_count:,} events); see tachograph report {path}")


def _timed(step: Any) -> int:
    began = time.perf_counter()
    step()
    return int((time.perf_counter() - began) * 1e6)


def _remove_directory(path: str, pid: int) -> None:
    if os.getpid() == pid:  # a forked child holds a copy of the object, not of the folder
        shutil.rmtree(path, ignore_errors=True)


# ---- one window at a time ----------------------------------------------------------------------------------

_lock = threading.RLock()  # a signal handler or a destructor may come in while it is held, on the same thread
_current: weakref.ref[Recording] | None = None


def current() -> Recording | None:
    """The window that is prepared or recording in this process."""
    recording = _current() if _current is not None else None
    return recording if recording is not None and recording.pid == os.getpid() else None


def _claim(recording: Recording) -> None:
    global _current
    with _lock:
        if current() is not None:
            recording._remove()
            raise Busy(
                "another tachograph profiler is recording in this process: stop it first, there can be one at a time"
            )
        _current = weakref.ref(recording)


def _release(recording: Recording) -> None:
    global _current
    with _lock:
        if _current is not None and _current() is recording:
            _current = None


os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.RLock(), _current=None))


# ---- which kind --------------------------------------------------------------------------------------------


def _native_class() -> tuple[type | None, str]:
    try:
        from .native import available
        from .native_window import NativeWindow
    except ImportError as e:
        return None, f"this build has no recorder ({e})"
    usable, reason = available()
    return (NativeWindow, "") if usable else (None, reason)


def _kineto_window(recipe: Recipe, trace_id: str) -> Recording:
    from .kineto import KinetoWindow

    if recipe.memory_budget or recipe.disk_budget:
        warn_once("torch's own collector has no budgets: memory_budget= and disk_budget= have no effect here")
    return KinetoWindow(recipe, trace_id)


def _recorded_by_us() -> str:
    session = sys.modules.get("tachograph._launch.session")
    recorder = session.current().recorder if session is not None and session.current() is not None else None
    if recorder is None:
        return ""
    return "`tachograph run` or `attach` records this process already; times of both include what the other costs"


def new_recording(recipe: Recipe, trace_id: str, backend: str = "auto") -> Recording:
    """A prepared window. backend: "native", "kineto", or "auto": what TACHOGRAPH_BACKEND says, else ours where it can,
    else torch's collector, and one line says why."""
    if backend == "auto" and os.environ.get("TACHOGRAPH_BACKEND") in BACKENDS:
        backend = os.environ["TACHOGRAPH_BACKEND"]
    if backend == "kineto":
        return _kineto_window(recipe, trace_id)
    reason = recipe.only_kineto() if backend == "auto" else None
    if reason:
        log.debug("%s", reason)
        return _kineto_window(recipe, trace_id)
    native, reason = _native_class()
    if native is not None:
        try:
            return native(recipe, trace_id)
        except RuntimeError as e:
            if backend == "native" or isinstance(e, Busy):  # torch's collector would be refused, too
                raise
            reason = _recorded_by_us() or str(e)
    if backend == "native":
        raise RuntimeError(f"backend='native' cannot be had here: {reason}")
    warn_once(f"recording with torch's own collector: {reason}")
    return _kineto_window(recipe, trace_id)
