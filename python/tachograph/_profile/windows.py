"""_KinetoProfile: one window after the other, without a schedule. `profiler.profile` adds the schedule."""

from __future__ import annotations

import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import ProfilerActivity

from .. import Trace
from .._collect import metadata as _metadata
from .._collect.backend import BACKENDS, ProfilerStats, Recipe, Recording, new_recording
from .._collect.config import (
    ProfilerActivityConfig as ProfilerActivityConfig,
    available_activities,
    budget_bytes,
    check_options,
    parse_activities,
    preset_flags,
    read_experimental,
)
from .._labels.annotate import observed
from .._say import info, warn_once
from .graph_lanes import bake_annotations, check_lanes
from .nvtx import NvtxRanges
from .observer import ITraceObserver

# Threads that torch makes for work it was given by another one: of autograd and of its pools; not those of a
# DataLoader. torch 2.4 names the main thread so, too, and threads of the program inherit that.
_HELPER = re.compile(r"\(pt_(?!data|main_thread)")


class _KinetoProfile:
    """Low-level profiler: start() and stop() bound a window, of which events(), tables and files can be had.

    Beyond torch's: preset= "lean", "default", "deep" or "train"; memory_budget=, disk_budget= in bytes or as "64M";
    backend= "auto", "native" (our recorder) or "kineto" (torch's collector); nvtx=True (an NVTX range per operator, for
    Nsight, which then has the device to itself); the attribute `trace` (an open tachograph.Trace)."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: ITraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        preset: str | None = None,
        memory_budget: float | str = 0,
        disk_budget: float | str = 0,
        backend: str = "auto",
        nvtx: bool = False,
    ) -> None:
        if backend not in BACKENDS:
            raise ValueError(f"backend={backend!r}: there are {', '.join(BACKENDS)}")
        flags = preset_flags(preset)
        self.activities, self.activity_configs = parse_activities(
            supported_activities() if activities is None else activities, ProfilerActivity
        )
        self._usable, use_device = available_activities(self.activities, supported_activities(), ProfilerActivity.CPU)
        if nvtx and use_device is not None:  # one collector at a time can have the device
            self._usable, use_device = {ProfilerActivity.CPU}, None
            info("nvtx=True: work on the device is left to the recorder of the NVTX ranges; the CPU is recorded here")
        self.record_shapes = record_shapes or "record_shapes" in flags
        self._nvtx = NvtxRanges(self.record_shapes) if nvtx else None
        self.with_flops = with_flops or "with_flops" in flags
        self.profile_memory = profile_memory or "profile_memory" in flags
        self.with_stack = with_stack or bool(flags & {"with_stack", "with_stack_per_op"})
        self.with_modules = with_modules or "with_modules" in flags
        self.experimental_config = experimental_config
        self._experimental = read_experimental(experimental_config)
        check_options(self.with_stack, self._experimental, post_processing_timeout_s)
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.has_cudagraphs = False
        self.mem_tl: Any = None
        self.use_device = use_device
        self.preset_metadata: dict[str, str] = {}
        self.preset, self.backend = preset, backend
        self._calls = with_stack or "with_stack" in flags
        self._budgets: dict[str, Any] = {
            "memory_budget": budget_bytes("memory_budget", memory_budget),
            "disk_budget": budget_bytes("disk_budget", disk_budget),
            "keep": "last",
        }
        self._early_metadata: dict[str, str] = {}
        self._recording: Recording | None = None  # the window that is prepared or running
        self._windows: list[Recording] = []  # finished ones: the last, or all with acc_events
        self._events: Any = None
        self._observes = False  # the observer watches the window that runs

    @property
    def activity_filters(self) -> dict[Any, set[str]]:
        """The activity types selected, as torch up to 2.14 calls it."""
        return {
            activity: set(c.activity_types)
            for activity, c in self.activity_configs.items()
            if c.activity_types is not None
        }

    # ---- windows ----

    def start(self) -> None:
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        self.stop_trace()

    def _recipe(self) -> Recipe:
        return Recipe(
            activities=frozenset(self._usable),
            activity_configs=self.activity_configs,
            use_device=self.use_device,
            record_shapes=self.record_shapes or self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self._calls,
            stack_per_op=self.with_stack or self._experimental.verbose,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            process=self.preset in ("lean", "default", "deep"),
            experimental=self._experimental,
            post_processing_timeout_s=self.post_processing_timeout_s,
            **self._budgets,
        )

    def prepare_trace(self) -> None:
        if self._windows and not self.acc_events:
            warn_once(
                "Warning: Profiler clears events at the end of each cycle. Only events from the current cycle will be reported. "
                "To keep events across cycles, set acc_events=True."
            )
        self._recording = new_recording(self._recipe(), self._new_trace_id(), self.backend)

    def _new_trace_id(self) -> str:
        return str(self.custom_trace_id_callback()) if self.custom_trace_id_callback else default_trace_id()

    def start_trace(self) -> None:
        if self._recording is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
            observed(1)
            self._observes = True
        for key, text in {**_metadata.automatic(self), **self.preset_metadata, **self._early_metadata}.items():
            self._recording.add_metadata(key, text)
        self._early_metadata.clear()
        try:
            self._recording.start()
        except Warning:  # raised as an error: it is dropped
            self._recording = None
            raise
        if self._nvtx:
            self._nvtx.begin(self._recording.kind)

    def stop_trace(self) -> None:
        if self.execution_trace_observer:
            if self._observes:
                observed(-1)
                self._observes = False
            self.execution_trace_observer.stop()
        if self._recording is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        recording = self._recording
        recording.check_stop()
        if self._nvtx:
            self._nvtx.end()
        recording.stop()
        self._recording, self._events = None, None
        self._windows = [*self._windows, recording] if self.acc_events else [recording]

    def _drop_trace(self) -> None:
        """Leave a warm-up that is followed by nothing. Earlier records stay; if there are none, there is an
        empty window."""
        if self._windows and self._recording is not None:
            self._recording.drop()
            self._recording = None
        else:
            self.start_trace()
            self.stop_trace()

    def _finished(self, purpose: str) -> Recording:
        if self._windows:
            return self._windows[-1]
        if self._recording is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        raise RuntimeError(f"Profiler didn't finish running: stop it before {purpose}")

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Stop or resume collecting these activities while a window is recorded."""
        if self._recording is not None:
            self._recording.toggle(enable, list(activities))

    # ---- what was recorded ----

    @property
    def trace(self) -> Trace:
        """The last finished window, as from tachograph.open: ask(), sql(), report(), export()."""
        return self._finished("reading the trace").trace()

    def _trace_scope(self, trace: Trace) -> dict[str, Any]:
        """Which events the tables show. Our recorder sees all threads, and forked children; torch's tables show the
        thread that started the profiler and those that work for it, so ours do, unless profile_all_threads is on."""
        window = next(w for w in self._windows if w.trace() is trace)
        if window.kind != "native":
            return {}
        if self._experimental.profile_all_threads:
            return {"pid": window.pid}
        helpers = [
            row["tid"]
            for row in trace.ask("tracks")
            if row["pid"] == str(window.pid) and _HELPER.search(row["name"] or "")
        ]
        return {"pid": window.pid, "thread": [window.thread, *helpers]}

    @property
    def _overloads_in_tables(self) -> bool:
        return self._experimental.capture_overload_names

    @property
    def _shows_event_metadata(self) -> bool:
        return self._experimental.expose_kineto_event_metadata

    @property
    def profiler(self) -> Any:
        """The windows as an autograd profiler has them, from when the first is prepared; None before."""
        if not self._windows and self._recording is None:
            return None
        from ..autograd.profiler import profile

        return profile._of_windows(self)

    def events(self) -> Any:
        """All events of the window, an EventList of FunctionEvent. As in torch of the thread that started the profiler,
        and of those that work for it (backward); `trace` has all threads and children."""
        self._finished("accessing events")
        if self._experimental.trace_only:
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. Use export_chrome_trace() instead."
            )
        if self._events is None:
            from .._events.event_list import EventList

            began_s = time.perf_counter()
            self._events = EventList.from_traces([w.trace() for w in self._windows], self)
            took_s = time.perf_counter() - began_s
            stats = self._windows[-1].stats
            stats.function_events_build_tree_call_duration_us = int(took_s * 1e6)
            stats.number_of_events = self._events.newest_count
            limit_s = self.post_processing_timeout_s
            if limit_s is not None and took_s >= limit_s:
                logging.getLogger("torch.autograd.profiler").warning(
                    "Profiler post-processing timed out after %.3f seconds; instead of partial results all %d events are there",
                    limit_s,
                    len(self._events),
                )
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> Any:
        """Events summed by name, and by input shapes, the innermost frames of their stack or their overload where asked
        for. They cover the threads that events() has, so counts may be smaller than those of `trace`."""
        self._finished("getting key averages")
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def _repr_html_(self) -> str:
        """The report of the last window, for notebooks."""
        from .._notebook import page_html

        return page_html(self.trace.report() if self._windows else f"{type(self).__name__}: nothing is recorded yet")

    def totals(self) -> Any:
        """Times of the whole window, of all threads and children, that count nothing twice: wall_ms, cpu_ms, device_ms
        and more; see Totals."""
        from .._events.totals import totals

        return totals(self._finished("adding up the run").trace())

    def by_class(self, device: bool | None = None) -> dict[str, float]:
        """The share of time of each kind of work (conv, norm, gemm, attention, elementwise, copy, comm, other); the
        shares add up to 1. device: True for device time, False for host time; by default device time where there is
        any."""
        from .._events.totals import by_class

        return by_class(self._finished("sorting operators into classes").trace(), device)

    def phases(self) -> Any:
        """Host time of a step in the DataLoader, forward, loss, backward and the optimizer, without labels; see
        PhaseTimes."""
        from .._events.totals import phases

        return phases(self._finished("dividing steps into phases").trace())

    def export_chrome_trace(
        self,
        path: str,
        use_python_export: bool = False,
        cuda_graph_annotations: Any = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
    ) -> None:
        """Write the last window as Chrome JSON, packed if path ends in .gz. As often as you like, also after a trace
        handler. use_python_export changes nothing: there is one exporter."""
        check_lanes(cuda_graph_annotations, graph_lanes)
        window, path = self._finished("exporting chrome trace"), os.fspath(path)
        window.export_chrome(path)
        if cuda_graph_annotations:
            bake_annotations(path, cuda_graph_annotations, graph_lanes, default_stream)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> Any:
        """Write folded stacks for flame graphs. metric: self_cpu_time_total or self_device_time_total
        (self_cuda_time_total)."""
        self._finished("exporting stacks")
        if not (self.with_stack or self._experimental.verbose):
            raise AssertionError("export_stacks() requires with_stack=True")
        return self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Memory by category over time: path ends in .html (a page), .json, .json.gz or raw.json.gz."""
        from .._memory.timeline import export_memory_timeline

        if device is None:
            device = f"{self.use_device}:0" if self.use_device else "cpu"
        torch.device(device)  # torch's own error for what is no device
        self.mem_tl = export_memory_timeline(self._memory_profile(), path, device)

    def _memory_profile(self) -> Any:
        missing = [
            f"{name}=True" for name in ("record_shapes", "profile_memory", "with_stack") if not getattr(self, name)
        ]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        self._finished("memory profiling")
        from .._memory.timeline import MemoryProfile

        return MemoryProfile(self.trace, self)

    def wait_for_exports(self) -> None:
        """Exports are complete when their call returns."""

    def take_pending_cuspy_export(self) -> None:
        """No export is ever pending."""

    take_pending_cupti_export = take_pending_cuspy_export  # its name in torch 2.14

    def _stats(self) -> ProfilerStats | None:
        recording = self._recording or (self._windows[-1] if self._windows else None)
        return recording.stats if recording else None

    # ---- metadata ----

    def add_metadata(self, key: str, value: str) -> None:
        """A text that goes into the trace file under this key."""
        self.add_metadata_json(key, _metadata.as_json(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """JSON text that goes into the trace file under this key: of the window that runs, else of the last one, else
        of the next."""
        text = _metadata.checked(key, value)
        target = self._recording or (self._windows[-1] if self._windows else None)
        if target is not None and (target.running or target is not self._recording):
            target.add_metadata(key, text)
        else:
            self._early_metadata[key] = text

    def preset_metadata_json(self, key: str, value: str) -> None:
        """JSON text that goes into the trace file of every window."""
        self.preset_metadata[key] = _metadata.checked(key, value)

    def _get_distributed_info(self) -> dict[str, Any] | None:
        return _metadata.distributed_info()


def default_trace_id() -> str:
    """A new random name for a window."""
    return uuid.uuid4().hex.upper()


def supported_activities() -> set[Any]:
    """The activities that can be collected here."""
    return set(torch.autograd._supported_activities())


def kineto_available() -> bool:
    """Whether this torch has a collector of its own."""
    return bool(torch.autograd.kineto_available())
