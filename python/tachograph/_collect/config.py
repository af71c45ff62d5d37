"""What a profiler was asked to record: activities, the configuration classes of torch 2.15, experimental configurations
of any torch."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from .._say import warn


@dataclass(frozen=True)
class CuspyConfig:
    """Extras of the device collector."""

    enable_cuda_sync_events: bool = False
    enable_environment_counters: bool = False
    enable_graph_dependencies: bool = False
    enable_event_node_ids: bool = False


@dataclass(frozen=True)
class PerformanceMetricsConfig:
    """Hardware counters of the current device, sampled."""

    metric_names: list[str]
    sampling_interval_ms: float | None = None
    lookback_window_ms: float | None = None


@dataclass(frozen=True)
class ProfilerActivityConfig:
    """What to collect of one activity. activity_types: names such as "CPU_OP"; None = all by default, [] = nothing."""

    activity_types: list[str] | None = None
    profiler_configs: list[Any] = field(default_factory=list)


@dataclass
class ExperimentalConfig:
    """torch's _ExperimentalConfig with all fields it ever had; keywords and their order are those of 2.15, the two that
    were removed last."""

    verbose: bool = False
    performance_events: list[str] = field(default_factory=list)
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False
    profiler_metrics: list[str] = field(default_factory=list)
    profiler_measure_per_kernel: bool = False

    def __post_init__(self) -> None:
        if self.adjust_profiler_step:
            warn("adjust_profiler_step has no effect: the start of a step is never moved", FutureWarning)
        if self.profiler_metrics or self.profiler_measure_per_kernel:
            warn(
                "profiler_metrics and profiler_measure_per_kernel have no effect: torch 2.15 no longer has them",
                FutureWarning,
            )


_REMOVED = ("profiler_metrics", "profiler_measure_per_kernel")


def read_experimental(config: Any) -> ExperimentalConfig:
    """torch's own object keeps most of its fields to itself; they are read from its pickled state, its length and
    first member say which layout it has: up to 2.14 a list of metrics comes first, from 2.15 on `verbose` does; the
    oldest have the events last."""
    if config is None:
        return ExperimentalConfig()
    if isinstance(config, ExperimentalConfig):
        return copy.copy(config)
    try:
        state = tuple(config.__getstate__())
    except (AttributeError, TypeError):
        raise TypeError(f"experimental_config must be an _ExperimentalConfig, not {type(config).__name__}") from None
    current = [f.name for f in fields(ExperimentalConfig) if f.name not in _REMOVED]
    names = current if state and isinstance(state[0], bool) else [*_REMOVED, *current]
    if len(state) == 5 and isinstance(state[3], bool):
        state = (*state[:3], state[4], state[3])
    return ExperimentalConfig(**{name: _as_text(value) for name, value in zip(names, state)})


def _as_text(value: Any) -> Any:
    """Lists of names come out of the pickled state as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_as_text(v) for v in value] if isinstance(value, (list, tuple)) else value


def parse_activities(activities: Iterable[Any], known: type) -> tuple[set[Any], dict[Any, ProfilerActivityConfig]]:
    """Every activity asked for, and the configurations of those that came with one. known: the class
    ProfilerActivity."""
    parsed: set[Any] = set()
    configs: dict[Any, ProfilerActivityConfig] = {}
    for item in activities:
        if isinstance(item, known):
            keys: Iterable[Any] = [item]
        elif isinstance(item, dict):
            keys = item
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}")
        for key in keys:
            if not isinstance(key, known):
                raise TypeError(f"Expected ProfilerActivity or dict, got {type(key)}")
            if key in parsed:
                raise ValueError(f"Activity {key} specified more than once")
            parsed.add(key)
            if isinstance(item, dict):
                configs[key] = _activity_config(item[key])
    if not parsed:
        raise AssertionError("No valid profiler activities found")
    return parsed, configs


def _activity_config(value: Any) -> ProfilerActivityConfig:
    if type(value).__name__ == "ProfilerActivityConfig":  # ours, or torch's own
        types, extras = value.activity_types, list(value.profiler_configs)
    else:
        types, extras = value, []
    if isinstance(types, str):
        raise TypeError(f"activity types come as a list of names, not as {types!r}")
    return ProfilerActivityConfig(None if types is None else [str(name).upper() for name in types], extras)


_DEVICES = {"CUDA": "cuda", "XPU": "xpu", "MTIA": "mtia", "HPU": "hpu", "PrivateUse1": "privateuse1"}


def available_activities(asked: Iterable[Any], supported: Iterable[Any], cpu: Any) -> tuple[set[Any], str | None]:
    """Those that this machine has, and the name of the device; one warning about the rest. Never empty: the CPU takes
    over."""
    supported, asked = set(supported), set(asked)
    usable = {a for a in asked if a == cpu or a in supported}
    missing = sorted(a.name for a in asked - usable)
    text = "; ".join(f"{name} is not available, disabling {name} profiling" for name in missing)
    if not usable:
        usable, text = {cpu}, text + "; recording the CPU instead"
    if text:
        warn(text)
    names = {a.name for a in usable}
    device = next((_DEVICES[name] for name in _DEVICES if name in names), None)
    return usable, device


def check_options(with_stack: bool, experimental: ExperimentalConfig, timeout: float | None) -> None:
    if experimental.trace_only and with_stack:
        warn(
            "trace_only=True is incompatible with with_stack=True (stack traces require event post-processing). Disabling trace_only."
        )
        experimental.trace_only = False
    if timeout is not None and timeout < 0:
        raise ValueError("post_processing_timeout_s must be non-negative")


_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(?:iB|B)?\s*", re.IGNORECASE)


def budget_bytes(name: str, value: float | str) -> int:
    """A budget of profile(): bytes, or a size such as "64M" or "1.5G" (powers of 1024). 0 is the recorder's own."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError(f'{name}={value!r} is no size: use bytes, or a text such as "64M" or "1.5G"')
    size = int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ") if found else value)
    least = _least(name)
    if size < 0 or 0 < size < least:
        raise ValueError(
            f'{name}={value!r}: a recording takes at least {least:,} bytes; use more, such as "64M", or leave it out '
            "for the recorder's own budget"
        )
    return size


def _least(name: str) -> int:
    try:
        from .. import _record
    except ImportError:  # a build without the recorder: budgets have no effect there
        return 1
    return _record.LEAST_MEMORY if name == "memory_budget" else _record.LEAST_DISK


PRESETS = {
    "lean": frozenset(),
    "default": frozenset({"record_shapes", "with_stack_per_op", "with_modules"}),
    "deep": frozenset({"record_shapes", "with_stack", "with_modules", "profile_memory", "with_flops"}),
    "train": frozenset(),
}


def preset_flags(preset: str | None) -> frozenset[str]:
    if preset is None:
        return frozenset()
    try:
        return PRESETS[preset]
    except KeyError:
        raise ValueError(f"preset={preset!r}: there are {', '.join(PRESETS)}") from None
