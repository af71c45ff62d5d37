"""The tree of all events of a window with the attributes of torch's _ProfilerEvent: what experimental_event_tree()
returns, and what torch.profiler._utils and _pattern_matcher of older torches walk over."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, NamedTuple

import torch

_C = torch._C._profiler
_MEMORY_ARGS = ("Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id")
_ARGS = (
    "Sequence number",
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "Overload name",
    "External id",
)
_TAGS = {
    "cpu_op": "TorchOp",
    "user_annotation": "TorchOp",
    "python_function": "PyCall",
    "cpu_instant_event": "Allocation",
}
_ON_HOST = ("cpu_op", "user_annotation", "python_function")
_FRAME = re.compile(r"(.*)\((\d+)\): (.*)")
_TYPES_OF_EVENTS = {name: getattr(_C._EventType, name) for name in ("TorchOp", "PyCall", "PyCCall", "Allocation")}
_TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
    "int": torch.int32,
    "long int": torch.int64,
    "short int": torch.int16,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
    "bool": torch.bool,
    "c10::complex<float>": torch.complex64,
    "c10::complex<double>": torch.complex128,
}


def _known_as(name: str) -> property:
    """isinstance() with torch's class of this name, which cannot be made from Python, holds for ours: tools ask it."""
    return property(lambda self: getattr(_C, name, type(self)))


class PyFrameState(NamedTuple):
    file_name: str
    line_number: int
    function_name: str


class NNModuleInfo(NamedTuple):
    """A module by its class; its parameters, which torch has here too, are in the memory timeline."""

    cls_name: str
    parameters: tuple = ()


class TensorMetadata(NamedTuple):
    sizes: list
    strides: list | None
    dtype: torch.dtype | None
    impl_ptr: int | None = None
    storage_data_ptr: int | None = None
    id: int | None = None
    allocation_id: int | None = None
    layout: torch.layout = torch.strided
    device: torch.device | None = None

    @property
    def dim(self) -> int:
        return len(self.sizes)


class TorchOp:
    __class__ = _known_as("_ExtraFields_TorchOp")

    def __init__(self, name: str, scope: Any, sequence_number: int, inputs: list) -> None:
        self.name, self.scope, self.sequence_number, self.inputs = name, scope, sequence_number, inputs
        self.allow_tf32_cublas = torch.backends.cuda.matmul.allow_tf32


class PyCall:
    __class__ = _known_as("_ExtraFields_PyCall")

    def __init__(self, callsite: PyFrameState, caller: PyFrameState | None, module: NNModuleInfo | None) -> None:
        self.callsite, self.caller, self.module, self.optimizer = callsite, caller, module, None


class PyCCall:
    __class__ = _known_as("_ExtraFields_PyCCall")

    def __init__(self, caller: PyFrameState | None) -> None:
        self.caller = caller


class Allocation:
    __class__ = _known_as("_ExtraFields_Allocation")

    def __init__(self, event: ProfilerEvent) -> None:
        self.ptr, self.alloc_size, allocated, reserved, device_type, index = (
            event._argument(name) for name in _MEMORY_ARGS
        )
        self.total_allocated, self.total_reserved = allocated or 0, reserved or 0
        self.device = torch.device("cuda", max(index or 0, 0)) if device_type else torch.device("cpu")
        self.id = self.allocation_id = None


class ProfilerEvent:
    """One event. `typed` is (tag, extra_fields), as tools take it apart."""

    __slots__ = (
        "_table",
        "_at",
        "id",
        "name",
        "tag",
        "start_tid",
        "start_time_ns",
        "duration_time_ns",
        "parent",
        "children",
    )

    def __init__(self, table: Any, at: int, number: int, tid: Any, parent: ProfilerEvent | None) -> None:
        self._table, self._at, self.id, self.start_tid, self.parent = table, at, number, tid, parent
        self.children: list[ProfilerEvent] = []
        self.name, self.start_time_ns = table["name"][at], table["start_ns"][at]
        self.duration_time_ns = table["dur_ns"][at] or 0
        tag = _TAGS[table["category"][at]]
        self.tag = _TYPES_OF_EVENTS["PyCCall" if tag == "PyCall" and self.name.startswith("<") else tag]

    @property
    def end_time_ns(self) -> int:
        return self.start_time_ns + self.duration_time_ns

    @property
    def overload_name(self) -> str:
        return self._argument("Overload name") or ""

    @property
    def correlation_id(self) -> int:
        return self._argument("External id") or 0

    def _argument(self, name: str) -> Any:
        return self._table[name][self._at] if name in self._table.columns else None

    @property
    def extra_fields(self) -> Any:
        tag = self.tag.name
        if tag == "TorchOp":
            sequence = self._argument("Sequence number")
            return TorchOp(self.name, _scope(self), -1 if sequence is None else sequence, _inputs(self))
        if tag == "Allocation":
            return Allocation(self)
        if tag == "PyCCall":
            return PyCCall(_frame_around(self))
        if tag == "PyCall":
            module = self.name.removeprefix("nn.Module: ") if self.name.startswith("nn.Module: ") else None
            return PyCall(
                _frame(self.name), _frame_around(self), NNModuleInfo(module.rpartition("_")[0]) if module else None
            )
        return None

    @property
    def typed(self) -> tuple[Any, Any]:
        return self.tag, self.extra_fields

    def __repr__(self) -> str:
        return f"<ProfilerEvent {self.name} {self.tag.name} {len(self.children)} children>"


def _frame(name: str) -> PyFrameState:
    found = _FRAME.fullmatch(name)
    return PyFrameState(found[1], int(found[2]), found[3]) if found else PyFrameState("", 0, name)


def _frame_around(event: ProfilerEvent) -> PyFrameState | None:
    around = event.parent
    while around is not None and around.tag.name != "PyCall":
        around = around.parent
    return _frame(around.name) if around is not None else None


def _scope(event: ProfilerEvent) -> Any:
    if event._table["category"][event._at] == "user_annotation":
        return _C.RecordScope.USER_SCOPE
    return (
        _C.RecordScope.BACKWARD_FUNCTION
        if event.name.endswith(("Backward0", "AccumulateGrad"))
        else _C.RecordScope.FUNCTION
    )


def _inputs(event: ProfilerEvent) -> list:
    """One for each argument: a tensor, a list of them, a scalar, None."""
    dims, types, strides, values = (json.loads(event._argument(name) or "[]") for name in _ARGS[1:5])
    result: list = []
    for i, shape in enumerate(dims):
        type_, value, stride = ((column[i] if i < len(column) else None) for column in (types, values, strides))
        if type_ == "TensorList" or any(isinstance(d, list) for d in shape):
            result.append([TensorMetadata(s, (stride or [None] * len(shape))[k], None) for k, s in enumerate(shape)])
        elif type_ in _TYPES:
            result.append(TensorMetadata(shape, stride, _TYPES[type_]))
        else:
            result.append(_scalar(value))
    return result


def _scalar(text: Any) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text) if text else None
    except ValueError:
        return text


def event_tree(trace: Any) -> list[ProfilerEvent]:
    """The outermost events of each thread, by their start; the others are their children."""
    tids = [int(row["tid"]) if row["tid"].lstrip("-").isdigit() else row["tid"] for row in trace.ask("tracks")]
    table = trace.ask("events", args=_ARGS, where=" or ".join(f'category == "{c}"' for c in _ON_HOST))
    by_id: dict[int, ProfilerEvent] = {}
    roots: list[ProfilerEvent] = []
    threads: dict[int, list[ProfilerEvent]] = {}
    for at, (number, parent, track) in enumerate(zip(table["id"], table["parent"], table["track"])):
        around = by_id.get(parent)
        event = by_id[number] = ProfilerEvent(table, at, number, tids[track], around)
        (around.children if around else roots).append(event)
        threads.setdefault(track, []).append(event)
    memory = trace.ask("events", by="mark", where='name == "[memory]"', args=_MEMORY_ARGS)
    next_id = max(by_id, default=0) + 1
    for at, (track, ts_ns) in enumerate(zip(memory["track"], memory["start_ns"])):
        around = _around(threads.get(track, []), ts_ns)
        event = ProfilerEvent(memory, at, next_id + at, tids[track], around)
        (around.children if around else roots).append(event)
    for event in [*by_id.values()] if len(memory) else []:
        event.children.sort(key=lambda e: e.start_time_ns)
    return sorted(roots, key=lambda e: e.start_time_ns)


def _around(events: list[ProfilerEvent], ts_ns: int) -> ProfilerEvent | None:
    """The innermost event of the thread at this time; events are in the order of their start."""
    at = bisect_right(events, ts_ns, key=lambda e: e.start_time_ns)
    event = events[at - 1] if at else None
    while event is not None and event.end_time_ns < ts_ns:
        event = event.parent
    return event
