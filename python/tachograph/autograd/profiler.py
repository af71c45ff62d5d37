"""torch.autograd.profiler's public names: the older, simpler face of the profiler. New code uses tachograph.profile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import DeviceType as DeviceType, ProfilerActivity, ProfilerState
from torch.autograd.profiler import (
    EnforceUnique,
    KinetoStepTracker,
    MemRecordsAcc,
    emit_itt,
    emit_nvtx,
    load_nvprof,
    parse_nvprof_trace,
)

from .. import _torch_own
from .._collect.backend import ProfilerStats as _ProfilerStats  # noqa: F401  used by this private name
from .._collect.config import ExperimentalConfig
from .._events.event_list import EventList, FunctionEvent, FunctionEventAvg, Interval as Interval, Kernel as Kernel
from .._events.kineto_results import KinetoResults
from .._labels.annotate import record_function
from .._profile.windows import _KinetoProfile, default_trace_id

__all__ = [
    "profile",
    "record_function",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "EnforceUnique",
    "parse_nvprof_trace",
    "KinetoStepTracker",
    "EventList",
    "FunctionEvent",
    "MemRecordsAcc",
]

_OPTIONS = (  # attributes that are those of its windows
    "acc_events",
    "activity_filters",
    "custom_trace_id_callback",
    "post_processing_timeout_s",
    "profile_memory",
    "use_device",
    "with_flops",
    "with_modules",
    "with_stack",
)
_DEVICES = {"cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA", "hpu": "HPU"}


def __getattr__(name: str) -> Any:
    """What torch keeps in its module and other code reads there, such as _is_profiler_enabled."""
    return getattr(_torch_own.autograd_profiler, name)


class profile:
    """Records the block: `with profile() as prof: …`, then prof.key_averages().table(). One window, no schedule.

    All of torch.autograd.profiler.profile: enabled=False does nothing; use_device="cuda" adds the device; use_kineto
    and the private keywords change nothing here. use_cuda=True and use_mtia=True are old ways to say use_device="cuda"
    and "mtia"."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
        _profiler_extensions: dict[str, str] | None = None,
        use_mtia: bool = False,
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        if use_cuda:
            warnings.warn(
                "`use_cuda` is deprecated, please use `use_device='cuda'` instead.", FutureWarning, stacklevel=2
            )
            use_device = "cuda"
        use_device = "mtia" if use_mtia else use_device
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        activities = _activities(use_cpu, use_device, activity_filters)
        if not activities:
            raise AssertionError("No activities specified for the profiler")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        self._windows = _KinetoProfile(
            activities=activities,
            record_shapes=record_shapes or with_flops,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.use_cpu = use_cpu
        self.entered = False

    @classmethod
    def _of_windows(cls, windows: _KinetoProfile) -> profile:
        """The face of a tachograph.profile, its attribute `profiler`."""
        prof = cls.__new__(cls)
        prof.enabled, prof.entered, prof._windows = True, True, windows
        prof.use_cpu = ProfilerActivity.CPU in windows.activities
        return prof

    def __getattr__(self, name: str) -> Any:
        """record_shapes, with_stack, use_device and the other options, as they are in force."""
        if name.startswith("__") or "_windows" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._windows, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_OPTIONS if "_windows" in vars(self) else ())})

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._windows.start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool | None:
        if not self.enabled:
            return None
        device: Any = getattr(torch, self._windows.use_device or "", None)
        if hasattr(device, "synchronize"):
            device.synchronize()
        self._windows.stop()
        return False

    def __repr__(self) -> str:
        return repr(self.function_events) if self._finished else "<unfinished tachograph.autograd.profiler.profile>"

    def __str__(self) -> str:
        return str(self.function_events) if self._finished else "<unfinished tachograph.autograd.profiler.profile>"

    # ---- what was recorded ----

    @property
    def _finished(self) -> bool:
        return self.enabled and bool(self._windows._windows)

    @property
    def function_events(self) -> EventList:
        """All events, in the order of their start."""
        if not self._finished:
            raise AssertionError("Expected profiling results: the block has not ended yet")
        events: EventList = self._windows.events()
        return events

    @property
    def kineto_results(self) -> KinetoResults | None:
        """The events with the methods of torch's own collector; None before the block has ended."""
        return KinetoResults(self._windows) if self._finished else None

    @property
    def trace_id(self) -> str:
        """Of the last window; empty before there is one."""
        return self._windows._windows[-1].trace_id if self._finished else ""

    @property
    def experimental_config(self) -> ExperimentalConfig:
        """What is in force, never None."""
        return self._windows._experimental

    @property
    def profiling_start_time_ns(self) -> int:
        """When the last window began, by time.perf_counter_ns(); 0 before there is one."""
        return self._windows._windows[-1].began_ns if self._finished else 0

    @property
    def profiling_end_time_ns(self) -> int:
        """When the last window ended, by the same clock."""
        return self._windows._windows[-1].ended_ns if self._finished else 0

    @property
    def kineto_activities(self) -> set[Any]:
        """The activities recorded: those asked for that this machine has."""
        return set(self._windows._usable)

    @property
    def record_shapes(self) -> bool:
        """Whether shapes are recorded: asked for, or needed for FLOPs."""
        return self._windows.record_shapes or self._windows.with_flops

    @property
    def profiler_kind(self) -> Any:
        """What torch calls a profiler that hands its events on as a trace."""
        return ProfilerState.KINETO

    def default_trace_id(self) -> str:
        """A new random name for a window."""
        return default_trace_id()

    def create_trace_id(self) -> str:
        """A new name for a window: from custom_trace_id_callback where there is one."""
        return self._windows._new_trace_id()

    @property
    def use_cuda(self) -> bool:
        """The old way to ask whether use_device is "cuda"."""
        return self._windows.use_device == "cuda"

    @property
    def use_mtia(self) -> bool:
        """The old way to ask whether use_device is "mtia"."""
        return self._windows.use_device == "mtia"

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, over all events, each counted without its children."""
        return self.function_events.self_cpu_time_total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Every event, one row each; key_averages().table() sums them up."""
        return self.function_events.table(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
        )

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events summed by name, and by input shapes, the innermost frames of their stack or their overload where asked
        for."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.function_events.total_average()

    def export_chrome_trace(
        self,
        path: str,
        metadata: dict[str, Any] | None = None,
        use_python_export: bool = False,
        cuda_graph_annotations: Any = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
    ) -> None:
        """Write all that was recorded as Chrome JSON, packed if path ends in .gz."""
        for key, value in (metadata or {}).items():
            self._windows.add_metadata(key, str(value))
        self._windows.export_chrome_trace(path, use_python_export, cuda_graph_annotations, graph_lanes, default_stream)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write folded stacks for flame graphs."""
        if not self._windows.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Stop or resume collecting these activities while the block runs."""
        self._windows.toggle_collection_dynamic(enabled, activities)


def _activities(use_cpu: bool, use_device: str | None, filters: Any) -> list[Any]:
    activities = [ProfilerActivity.CPU] if use_cpu else []
    if use_device is not None:
        name = _DEVICES.get(
            use_device, "PrivateUse1" if use_device == torch._C._get_privateuse1_backend_name() else None
        )
        if name is None:
            warnings.warn(f"The {use_device} is not a valid device option.", stacklevel=3)
        else:
            activities.append(getattr(ProfilerActivity, name))
    filters = filters or {}
    return [{a: sorted(filters[a])} if a in filters else a for a in activities]
