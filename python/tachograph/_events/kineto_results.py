"""The results of a window with the methods of torch's _ProfilerResult and _KinetoEvent, for tools that read those."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .function_event import FunctionEvent

_NS = 1000
# Methods of torch's _KinetoEvent, for a FunctionEvent. Times are nanoseconds.
_METHODS: dict[str, Callable[[FunctionEvent], Any]] = {
    "name": lambda e: e.trace_name or e.name,
    "overload_name": lambda e: e.overload_name,
    "start_thread_id": lambda e: e.thread,
    "end_thread_id": lambda e: e.thread,
    "fwd_thread_id": lambda e: e.fwd_thread,
    "sequence_nr": lambda e: e.sequence_nr,
    "correlation_id": lambda e: e.id,
    "linked_correlation_id": lambda e: e.linked_correlation_id,
    "external_id": lambda e: e.external_id,
    "shapes": lambda e: e.input_shapes,
    "structured_input_shapes": lambda e: e.structured_input_shapes,
    "structured_input_strides": lambda e: e.structured_input_strides,
    "dtypes": lambda e: e.input_dtypes,
    "concrete_inputs": lambda e: e.concrete_inputs,
    "kwinputs": lambda e: e.kwinputs or {},
    "stack": lambda e: e.stack,
    "scope": lambda e: e.scope,
    "device_type": lambda e: e.device_type,
    "device_index": lambda e: e.device_index,
    "device_resource_id": lambda e: e.device_resource_id,
    "flow_id": lambda e: e.flow_id or 0,
    "flow_type": lambda e: e.flow_type or 0,
    "flow_start": lambda e: bool(e.flow_start),
    "activity_type": lambda e: e.activity_type,
    "flops": lambda e: e.flops,
    "nbytes": lambda e: e.cpu_memory_usage or e.device_memory_usage,
    "is_async": lambda e: e.is_async,
    "is_user_annotation": lambda e: e.is_user_annotation,
    "is_python_function": lambda e: e.is_python_function,
    "is_hidden_event": lambda e: False,
    "extra_meta": lambda e: {k: str(v) for k, v in (e.metadata or {}).items()},
    "metadata_json": lambda e: json.dumps(e.metadata or {}),
    "typed_metadata": lambda e: e.metadata or {},
    "python_id": lambda e: e.python_id,
    "python_parent_id": lambda e: e.python_parent_id,
    "python_module_id": lambda e: e.python_module_id,
    "cuda_elapsed_us": lambda e: -1,
    "privateuse1_elapsed_us": lambda e: -1,
}


class KinetoEvent:
    """One event; its methods are those of torch's _KinetoEvent."""

    def __init__(self, event: FunctionEvent, origin_ns: int) -> None:
        self._event, self._origin_ns = event, origin_ns

    def __getattr__(self, name: str) -> Callable[[], Any]:
        method = _METHODS.get(name)
        if method is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return lambda: method(self._event)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_METHODS})

    def start_ns(self) -> int:
        return self._origin_ns + round(self._event.time_range.start * _NS)

    def end_ns(self) -> int:
        return self._origin_ns + round(self._event.time_range.end * _NS)

    def duration_ns(self) -> int:
        return self.end_ns() - self.start_ns()


class KinetoResults:
    """What torch's autograd profiler has as kineto_results."""

    def __init__(self, windows: Any) -> None:
        self._windows = windows

    def trace_start_ns(self) -> int:
        return self._windows.events()._origin_ns

    def events(self) -> list[KinetoEvent]:
        origin = self.trace_start_ns()
        return [KinetoEvent(event, origin) for event in self._windows.events()]

    def experimental_event_tree(self) -> list[Any]:
        """The outermost events of each thread, with their children: see _event_tree."""
        from .event_tree import event_tree

        return event_tree(self._windows.trace)

    def save(self, path: str) -> None:
        """Write the trace as Chrome JSON; as often as you like."""
        self._windows.export_chrome_trace(path)
