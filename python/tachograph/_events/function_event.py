"""FunctionEvent and FunctionEventAvg, with the attributes of torch.autograd.profiler_util's classes.

An event of a trace is a view: what it is asked for is fetched from the engine's columns, once. An event made by hand
holds everything itself, and works its times out from its children."""

from __future__ import annotations

import enum
import json
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .event_source import METADATA, EventSource, Kernel, plain_shapes, python_value, scope_of
from .table import format_time

try:
    from torch.autograd import DeviceType as DeviceType
except ImportError:

    class DeviceType(enum.IntEnum):  # type: ignore[no-redef]  # the same members
        """torch's device types, for reading traces where there is no torch."""

        (
            CPU,
            CUDA,
            MKLDNN,
            OPENGL,
            OPENCL,
            IDEEP,
            HIP,
            FPGA,
            MAIA,
            XLA,
            Vulkan,
            Metal,
            XPU,
            MPS,
            Meta,
            HPU,
            VE,
            Lazy,
            IPU,
            MTIA,
            PrivateUse1,
        ) = range(21)


_DEVICE_TYPES = {"cuda": DeviceType.CUDA, "xpu": DeviceType.XPU, "mtia": DeviceType.MTIA, "hpu": DeviceType.HPU}
_FIELDS = list(METADATA.values())
EventMetadata = namedtuple("EventMetadata", _FIELDS, defaults=[None] * len(_FIELDS))  # type: ignore[misc]  # made of a dict


class Interval:
    """Start and end in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


def _deprecated(old: str, new: str) -> property:
    def get(self: Any) -> Any:
        warnings.warn(f"`{old}` is deprecated, please use `{new}` instead.", FutureWarning, stacklevel=2)
        return getattr(self, new)

    get.__doc__ = f"The old name of `{new}`."
    return property(get)


class FormattedTimesMixin:
    """Times a call, times as text, and the names of earlier years, for classes with `*_time_total` and `count`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # of the class this is mixed into
            ...

    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    device_time_str = property(lambda self: format_time(self.device_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    device_time_total_str = property(lambda self: format_time(self.device_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))
    self_device_time_total_str = property(lambda self: format_time(self.self_device_time_total))

    @property
    def cpu_time(self) -> float:
        return 1.0 * self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return 1.0 * self.device_time_total / self.count if self.count else 0.0

    cuda_time = _deprecated("cuda_time", "device_time")
    cuda_time_total = _deprecated("cuda_time_total", "device_time_total")
    self_cuda_time_total = _deprecated("self_cuda_time_total", "self_device_time_total")
    cuda_memory_usage = _deprecated("cuda_memory_usage", "device_memory_usage")
    self_cuda_memory_usage = _deprecated("self_cuda_memory_usage", "self_device_memory_usage")
    cuda_time_str = _deprecated("cuda_time_str", "device_time_str")
    cuda_time_total_str = _deprecated("cuda_time_total_str", "device_time_total_str")
    self_cuda_time_total_str = _deprecated("self_cuda_time_total_str", "self_device_time_total_str")


def _lazy_list(source: EventSource, row: int, name: str) -> list | None:
    return None if _is_memory(source, row) else source.argument(row, name) or []


def _is_memory(source: EventSource, row: int) -> bool:
    """An allocation or free outside of all operators: in torch such an event has few attributes."""
    return source.table["event"][row] is None and source.table["name"][row] == "[memory]"


def _concrete_inputs(source: EventSource, row: int) -> list | None:
    texts = _lazy_list(source, row, "Concrete Inputs")
    return None if texts is None else [python_value(text) for text in texts]


# What an event of a trace is asked for by name, and how it is had. Read once, then kept on the event.
_LAZY: dict[str, Callable[[FunctionEvent, EventSource, int], Any]] = {
    "id": lambda e, s, row: _event_id(e, s, row),
    "name": lambda e, s, row: s.table["name"][row],
    "overload_name": lambda e, s, row: s.table["overload"][row] or "",
    "trace_name": lambda e, s, row: None if s.table["event"][row] is None else s.slices["name"][s.table["event"][row]],
    "time_range": lambda e, s, row: Interval(
        (s.columns["start_ns"][row] - s.start_ns) / 1000,
        (s.columns["start_ns"][row] + s.columns["dur_ns"][row] - s.start_ns) / 1000,
    ),
    "thread": lambda e, s, row: s.thread(row),
    "fwd_thread": lambda e, s, row: s.thread(row) if _is_memory(s, row) else s.argument(row, "Fwd thread id") or 0,
    "kernels": lambda e, s, row: s.kernels.get(row, []),
    "cpu_children": lambda e, s, row: [e._siblings[child] for child in s.children.get(row, ())],
    "cpu_parent": lambda e, s, row: None if s.parent(row) is None else e._siblings[s.parent(row)],
    "input_shapes": lambda e, s, row: plain_shapes(s.argument(row, "Input Dims")),
    "structured_input_shapes": lambda e, s, row: _lazy_list(s, row, "Input Dims"),
    "structured_input_strides": lambda e, s, row: _lazy_list(s, row, "Input Strides"),
    "input_dtypes": lambda e, s, row: _lazy_list(s, row, "Input type"),
    "concrete_inputs": lambda e, s, row: _concrete_inputs(s, row),
    "kwinputs": lambda e, s, row: None if _is_memory(s, row) else {},
    "stack": lambda e, s, row: s.stack(row),
    "scope": lambda e, s, row: scope_of(s.table["name"][row], s.columns["scope"][row]),
    "use_device": lambda e, s, row: s.use_device,
    "cpu_memory_usage": lambda e, s, row: s.columns["cpu_memory_bytes"][row],
    "device_memory_usage": lambda e, s, row: s.columns["device_memory_bytes"][row],
    "sequence_nr": lambda e, s, row: (
        -1 if s.argument(row, "Sequence number") is None else s.argument(row, "Sequence number")
    ),
    "device_type": lambda e, s, row: device_type(s.table["device"][row], s.use_device),
    "device_index": lambda e, s, row: (
        0 if _is_memory(s, row) else s.argument(row, "device") or 0 if s.table["device"][row] else s.process(row)
    ),
    "device_resource_id": lambda e, s, row: s.argument(row, "stream") if s.table["device"][row] else s.thread(row),
    "is_async": lambda e, s, row: s.table["async"][row],
    "flops": lambda e, s, row: None if _is_memory(s, row) else s.columns["flops"][row],
    "is_user_annotation": lambda e, s, row: s.table["category"][row] in ("user_annotation", "gpu_user_annotation"),
    "is_python_function": lambda e, s, row: s.table["category"][row] == "python_function",
    "activity_type": lambda e, s, row: s.table["category"][row],
    "external_id": lambda e, s, row: s.external_id(row),
    "flow_id": lambda e, s, row: None if _is_memory(s, row) else s.flow(row)[0],
    "flow_type": lambda e, s, row: None if _is_memory(s, row) else s.flow(row)[1],
    "flow_start": lambda e, s, row: None if _is_memory(s, row) else s.flow(row)[2],
    "linked_correlation_id": lambda e, s, row: s.argument(row, "External id") or 0 if s.table["device"][row] else 0,
    "python_id": lambda e, s, row: s.python_ids(row)[0],
    "python_parent_id": lambda e, s, row: s.python_ids(row)[1],
    "python_module_id": lambda e, s, row: _or(s.argument(row, "Python module id"), -1),
    "module_path": lambda e, s, row: s.argument(row, "Module path"),
    "metadata": lambda e, s, row: s.metadata(row),
    "_event_metadata": lambda e, s, row: (
        None if s.metadata(row) is None else EventMetadata(**(s.metadata_fields(row) or {}))
    ),
}


def _event_id(event: FunctionEvent, source: EventSource, row: int) -> int:
    """The trace's own number; where it has none, one that no other event has. Python functions have 0, as in torch."""
    given = source.external_id(row) or source.argument(row, "correlation")
    return given or (0 if event.is_python_function else row + 1)


def _or(value: Any, instead: Any) -> Any:
    return instead if value is None else value


def device_type(on_device: bool, use_device: str | None) -> Any:
    return _DEVICE_TYPES.get(use_device or "cuda", DeviceType.PrivateUse1) if on_device else DeviceType.CPU


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, annotation, Python function or runtime function, or one piece of device work."""

    _source: EventSource | None = None  # where the rest is fetched from; None when made by hand
    _row = -1
    node_id, count, is_remote, is_legacy = -1, 1, False, False
    self_cpu_percent = total_cpu_percent = total_device_percent = -1

    def __init__(
        self,
        id: Any,
        name: Any,
        thread: Any,
        start_us: Any,
        end_us: Any,
        overload_name: Any = None,
        fwd_thread: Any = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: Any = 0,
        use_device: Any = None,
        cpu_memory_usage: Any = 0,
        device_memory_usage: Any = 0,
        is_async: Any = False,
        is_remote: Any = False,
        sequence_nr: Any = -1,
        node_id: Any = -1,
        device_type: Any = DeviceType.CPU,
        device_index: Any = 0,
        device_resource_id: Any = None,
        is_legacy: Any = False,
        flops: Any = None,
        trace_name: Any = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: Any = False,
        is_python_function: Any = False,
        activity_type: Any = None,
        flow_id: Any = None,
        flow_type: Any = None,
        flow_start: Any = None,
        external_id: Any = 0,
        linked_correlation_id: Any = 0,
        extra_meta: Any = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: Any = -1,
        python_parent_id: Any = -1,
        python_module_id: Any = -1,
        typed_metadata: Any = None,
        metadata_json: Any = None,
    ):
        given = dict(locals())
        for name_ in ("self", "start_us", "end_us", "metadata_json", "extra_meta", "typed_metadata"):
            del given[name_]
        vars(self).update(given)
        self.time_range = Interval(start_us, end_us)
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.module_path: str | None = None  # beyond torch's: of the module that called it, as named_modules() has it
        self.metadata = typed_metadata
        self._metadata_json = metadata_json
        meta = {field: (extra_meta or {}).get(key) for key, field in METADATA.items()}
        self._event_metadata = EventMetadata(**meta) if any(v is not None for v in meta.values()) else None

    @classmethod
    def _view(cls, siblings: Any, source: EventSource, row: int) -> FunctionEvent:
        """siblings: the events of the same source, by row."""
        event = cls.__new__(cls)
        vars(event).update(_siblings=siblings, _source=source, _row=row)
        return event

    def __getattr__(self, name: str) -> Any:
        get = _LAZY.get(name)
        if get is None or self._source is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = get(self, self._source, self._row)
        vars(self)[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_LAZY})

    def __reduce__(self) -> Any:
        """A copy that needs no trace: what it holds by itself, without its place in the tree."""
        state = {name: getattr(self, name) for name in _LAZY if name not in ("cpu_children", "cpu_parent")}
        state.update(
            {
                k: v
                for k, v in vars(self).items()
                if k not in ("_siblings", "_source", "_row", "cpu_children", "cpu_parent")
            }
        )
        return _restore_event, ({**state, "cpu_children": [], "cpu_parent": None},)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        self._only_on_cpu(self)
        self.kernels = [*self.kernels, Kernel(name, device, duration)]

    def append_cpu_child(self, child: FunctionEvent) -> None:
        self._only_on_cpu(self, child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        self._only_on_cpu(self, parent)
        self.cpu_parent = parent

    @staticmethod
    def _only_on_cpu(*events: Any) -> None:
        for event in events:
            if not isinstance(event, FunctionEvent):
                raise AssertionError(f"{event!r} is not a FunctionEvent")
            if event.device_type != DeviceType.CPU:
                raise AssertionError(
                    f"{event.name} ran on {event.device_type}; only CPU events have kernels, parents and children"
                )

    def _without_children(self, total: str) -> Any:
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return getattr(self, total) - sum(getattr(child, total) for child in self.cpu_children)

    def _column(self, name: str) -> Any:
        return self._source.columns[name][self._row] if self._source else None

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        if self._source:
            return self._column("cpu_ns") / 1000
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        return self._column("self_cpu_ns") / 1000 if self._source else self._without_children("cpu_time_total")

    @property
    def device_time_total(self) -> float:
        if self.is_async or not self.use_device:
            return 0
        if self._source:
            return self._column("device_ns") / 1000
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        own = sum(kernel.duration for kernel in self.kernels)
        return own if self.is_legacy else own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        if self.is_async or not self.use_device:
            return 0
        if self._source:
            return self._column("self_device_ns") / 1000
        return (
            self._without_children("device_time_total")
            if self.device_type == DeviceType.CPU
            else self.device_time_total
        )

    @property
    def self_cpu_memory_usage(self) -> int:
        return self._column("self_cpu_memory_bytes") if self._source else self._without_children("cpu_memory_usage")

    @property
    def self_device_memory_usage(self) -> int:
        return (
            self._column("self_device_memory_bytes") if self._source else self._without_children("device_memory_usage")
        )

    @property
    def metadata_json(self) -> str | None:
        """The old name of `metadata`, as the members of a JSON object. For a host event it is empty, or its number with
        expose_kineto_event_metadata."""
        warnings.warn("`metadata_json` is deprecated. Use `metadata` instead.", FutureWarning, stacklevel=2)
        if self._source is None:
            return self._metadata_json
        if self.metadata is not None:
            return ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self.metadata.items())
        if _is_memory(self._source, self._row):
            return None
        index = self._source.index(self._row) if self._source.shows_metadata and not self.is_python_function else None
        return "" if index is None else f'"Ev Idx": {index}'

    @property
    def event_metadata(self) -> tuple | None:
        """`metadata` with the names of EventMetadata."""
        warnings.warn("`event_metadata` is deprecated. Use `metadata` instead.", FutureWarning, stacklevel=2)
        return self._event_metadata

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} device_type={self.device_type} "
            f"node_id={self.node_id} cpu_time={self.cpu_time_str} start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} name={self.name} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} is_remote={self.is_remote} "
            f"seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


def _restore_event(state: dict[str, Any]) -> FunctionEvent:
    event = FunctionEvent.__new__(FunctionEvent)
    vars(event).update(state)
    return event


_SUMMED = (
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
    "count",
)
_OF_THE_FIRST = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over the events of one key. Descriptive attributes are those of the first of them."""

    self_cpu_percent = total_cpu_percent = total_device_percent = -1
    _first: Callable[[], FunctionEvent] | None = None  # finds the first event, which has parent and children

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = self.flops = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total = self.device_time_total = self.self_cpu_time_total = self.self_device_time_total = 0
        self.cpu_memory_usage = self.device_memory_usage = self.self_cpu_memory_usage = (
            self.self_device_memory_usage
        ) = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list | None = None
        self.scope: int | None = None
        self.cpu_children: list | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU

    def __getattr__(self, name: str) -> Any:
        first = vars(self).get("_first")
        if name not in ("cpu_parent", "cpu_children") or first is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        vars(self)[name] = value = getattr(first(), name)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), "cpu_parent", "cpu_children"})

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"{other!r} is neither FunctionEvent nor FunctionEventAvg")
        if self.key is None:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name))
            self._take_place(other)
        if other.key != self.key:
            raise AssertionError(f"{other.key} cannot be added to {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = self.flops if other.flops is None else (self.flops or 0) + other.flops
        return self

    __iadd__ = add

    def _take_place(self, other: FunctionEvent | FunctionEventAvg) -> None:
        """Parent and children of the first event; found later where they are not known yet."""
        later = isinstance(other, FunctionEventAvg) and other._first is not None
        for name in ("cpu_parent", "cpu_children"):
            vars(self).pop(name, None)
            if not later or name in vars(other):
                setattr(self, name, getattr(other, name))
        if later:
            self._first = other._first

    def __reduce__(self) -> Any:
        state = {k: v for k, v in vars(self).items() if k not in ("_first", "cpu_parent", "cpu_children")}
        return _restore_average, ({**state, "cpu_parent": None, "cpu_children": []},)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_{device}_time={self.self_device_time_total_str} {device}_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


def _restore_average(state: dict[str, Any]) -> FunctionEventAvg:
    average = FunctionEventAvg()
    vars(average).update(state)
    return average
