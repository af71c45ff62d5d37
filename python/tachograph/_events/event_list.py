"""EventList, torch.autograd.profiler_util's list of events, as a view over the engine's columns.

A list from a trace makes no object until one is looked at, and its key_averages() is one question to the engine. A list
made by hand, or changed by hand, works everything out in Python by the same rules."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._say import warn
from .event_source import EventSource, Kernel, is_user_frame, scope_of
from .function_event import (
    DeviceType as DeviceType,
    EventMetadata,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    device_type,
)
from .table import build_table, device_spelling, format_time

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "FormattedTimesMixin",
    "Interval",
    "Kernel",
    "EventMetadata",
]

_STACK_METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]
_ALL_FRAMES = 256
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # differs between objects of a built-in method


class _Part:
    """The events of one source in a list: made when asked for by row, then kept in the list."""

    def __init__(self, events: EventList, source: EventSource, offset: int) -> None:
        self.events, self.source, self.offset = events, source, offset

    def __getitem__(self, row: int) -> FunctionEvent:
        event = list.__getitem__(self.events, self.offset + row)
        if event is None:
            event = FunctionEvent._view(self, self.source, row)
            list.__setitem__(self.events, self.offset + row, event)
        return event

    def of_slice(self, number: int) -> FunctionEvent:
        return self[self.source.row_of_slice[number]]


class EventList(list):
    """A list of FunctionEvent or FunctionEventAvg, with tables, averages and exports.

    EventList(events, use_device=, profile_memory=, with_flops=) as torch has it; EventList.from_trace(trace) of an open
    trace."""

    def __init__(
        self, *args: Any, use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False
    ) -> None:
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self._sources: list[EventSource] = []  # nothing has been changed by hand
        self._parts: list[_Part] = []  # filled when an event is first looked at
        self._whole: EventList | None = None  # what these are averages of, when its Python functions have no row here
        self._tree_built = True
        self._overloads = (
            True  # have a column: torch knows them only with capture_overload_names, an event of ours always
        )

    @classmethod
    def from_trace(cls, trace: Any, profile: Any = None) -> EventList:
        """The events of an open trace. profile: whatever has use_device, profile_memory and with_flops; None: what the
        trace shows."""
        return cls.from_traces([trace], profile)

    @classmethod
    def from_traces(cls, traces: Iterable[Any], profile: Any = None) -> EventList:
        """The same of several recordings, oldest first; as in torch the newest comes first in the list."""
        traces = list(traces)
        shown = profile or _Shown(traces)
        events = cls(use_device=shown.use_device, profile_memory=shown.profile_memory, with_flops=shown.with_flops)
        events._overloads = getattr(profile, "_overloads_in_tables", True)
        start = getattr(profile, "_trace_start_ns", None)
        scope: Callable[[Any], Any] = getattr(profile, "_trace_scope", lambda trace: {})
        events._sources = [
            EventSource(trace, shown.use_device, start if len(traces) == 1 else None, scope(trace))
            for trace in reversed(traces)
        ]
        for source in events._sources:
            source.shows_metadata = getattr(profile, "_shows_event_metadata", False)
        return events

    # ---- the list ----

    def newest_count(self) -> int:
        """How many events the newest recording has."""
        return len(self._sources[0]) if self._sources else len(self)

    def _look(self) -> None:
        """Room for every event. From now on len() is right for list's own code, too."""
        if self._sources and not self._parts:
            offset = 0
            for source in self._sources:
                self._parts.append(_Part(self, source, offset))
                list.extend(self, [None] * len(source))
                offset += len(source)

    def _fill(self) -> None:
        """Every event there is, made."""
        self._look()
        for part in self._parts:
            for row in range(len(part.source)):
                part[row]

    def _at(self, index: int) -> Any:
        for part in reversed(self._parts):
            if index >= part.offset:
                return part[index - part.offset]
        return list.__getitem__(self, index)

    def __len__(self) -> int:
        self._look()
        return list.__len__(self)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __getitem__(self, index: Any) -> Any:
        size = len(self)
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(size))]
        at = index.__index__()
        at += size if at < 0 else 0
        if not 0 <= at < size:
            raise IndexError("list index out of range")
        return self._at(at)

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while at < len(self):
            yield self._at(at)
            at += 1

    def __reversed__(self) -> Iterator[Any]:
        return (self._at(at) for at in range(len(self) - 1, -1, -1))

    def __str__(self) -> str:
        return self.table()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restore_list, (list(self), self._use_device, self._profile_memory, self._with_flops)

    @property
    def _origin_ns(self) -> int:
        """The time all event times count from, on the clock of the trace."""
        return self._sources[0].start_ns if self._sources else 0

    # ---- averages ----

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, over all events, each counted without its children."""
        if self._sources:
            return sum(sum(source.averages("name", True)["self_cpu_ns"]) for source in self._sources) / 1000
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """One FunctionEventAvg per name, and per input shapes, innermost frames or overload when asked for. Python
        functions have rows only with include_python_functions."""
        result = EventList(
            use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )
        if self._sources:
            by = ["name"] + ["shape"] * bool(group_by_input_shapes) + ["overload"] * bool(group_by_overload_name)
            by += [f"stack:{group_by_stack_n}"] if group_by_stack_n > 0 else []
            rows = _merged(
                _averages(self, index, "+".join(by), include_python_functions) for index in range(len(self._sources))
            )
        else:
            rows = _averages_by_hand(
                self, group_by_input_shapes, group_by_stack_n, group_by_overload_name, include_python_functions
            )
        list.extend(result, rows)
        result._whole = None if include_python_functions else self
        if group_by_input_shapes and rows and not any(row.input_shapes for row in rows):
            warnings.warn(
                "no input shapes were recorded, so group_by_input_shape has no effect: profile with record_shapes=True",
                stacklevel=3,
            )
        if group_by_stack_n > 0 and rows and not any(row.stack for row in rows):
            warnings.warn(
                "no call stacks were recorded, so group_by_stack_n has no effect: profile with with_stack=True",
                stacklevel=3,
            )
        for row in rows:
            row.stack = (row.stack or [])[:group_by_stack_n]
            row.input_shapes = row.input_shapes if group_by_input_shapes else ""
            row.overload_name = row.overload_name if group_by_overload_name else ""
        return result

    @property
    def python_time_left_out(self) -> float:
        """Microseconds of the host's own time in Python functions, which these averages leave out."""
        whole = self._whole
        if whole is None:
            return 0.0
        rows = (
            (row for index in range(len(whole._sources)) for row in _averages(whole, index, "name", True))
            if whole._sources
            else whole
        )
        return sum(row.self_cpu_time_total for row in rows if getattr(row, "is_python_function", False))

    def total_average(self) -> FunctionEventAvg:
        """One FunctionEventAvg, called Total, of all events."""
        total = FunctionEventAvg()
        rows = (
            (row for index in range(len(self._sources)) for row in _averages(self, index, "name", True))
            if self._sources
            else self
        )
        for event in rows:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    # ---- text and files ----

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        left_out: bool = False,
    ) -> str:
        """The events as a table. sort_by: an attribute, largest first, such as self_cpu_time_total, cuda_time_total,
        count or flops. row_limit -1: all rows. time_unit: s, ms or us for all times. left_out=True: a last line with
        the time of the Python functions that have no row."""
        text = build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            overloads=self._overloads,
            left_out=lambda: self.python_time_left_out,
        )
        return (
            text + f"Self CPU time of Python functions, left out: {format_time(self.python_time_left_out)}\n"
            if left_out and text
            else text
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Only the events, in Chrome's format. A profile's export_chrome_trace() writes all that was recorded."""
        flow = f"cpu_to_{self._use_device or 'cuda'}"
        number = 0
        with open(path, "w") as file:
            file.write("[")
            separator = ""
            for event in self:
                if event.trace_name is None:
                    continue
                base = {
                    "name": event.trace_name,
                    "ts": event.time_range.start,
                    "tid": event.thread,
                    "pid": "CPU functions",
                    "args": {},
                }
                if event.is_remote:
                    base["tid"] = f" node_id:{event.node_id}, thread_id:{event.thread} "
                records = [{**base, "ph": "X", "dur": event.time_range.elapsed_us()}]
                for _ in event.kernels:
                    records.append({**base, "ph": "s", "id": number, "cat": flow})
                    number += 1
                for record in records:
                    file.write(separator + json.dumps(record))
                    separator = ", "
            file.write("]")

    def supported_export_stacks_metrics(self) -> list[str]:
        return list(_STACK_METRICS)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Stacks for flame graphs: one line per stack, outermost frame first, and its microseconds. A Python function's
        own time counts for the stack with itself on top."""
        if metric not in _STACK_METRICS:
            raise ValueError(f"metric should be one of: {_STACK_METRICS}")
        attribute = device_spelling(metric)
        sums: dict[tuple[str, ...], float] = {}
        for event, stack in self._with_stacks():
            sums[stack] = sums.get(stack, 0) + getattr(event, attribute)
        if not any(int(us) > 0 for us in sums.values()):
            warn(f"export_stacks: no event has any {metric}, so {os.fspath(path)} is empty")
        plain = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for stack, us in sums.items():
                if stack and int(us) > 0:
                    file.write(";".join(frame.translate(plain) for frame in reversed(stack)) + f" {int(us)}\n")

    def _with_stacks(self) -> Iterator[tuple[Any, tuple[str, ...]]]:
        if not self._sources:
            for event in self:
                own = (_ADDRESS.sub("", event.key),) if getattr(event, "is_python_function", False) else ()
                yield event, own + tuple(event.stack or ())
        for index in range(len(self._sources)):
            for row in _averages(self, index, f"name+stack:{_ALL_FRAMES}", True):
                own = (_ADDRESS.sub("", row.key or ""),) if row.is_python_function else ()
                yield row, own + tuple(row.stack or ())


def _changing(name: str) -> Callable[..., Any]:
    """A method of list that changes it, or compares it whole: it needs every event, and afterwards the list is one made
    by hand."""
    plain = getattr(list, name)

    def method(self: EventList, *args: Any, **kwargs: Any) -> Any:
        self._fill()
        self._parts = []
        self._sources = []
        return plain(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _reading(name: str) -> Callable[..., Any]:
    plain = getattr(list, name)

    def method(self: EventList, *args: Any, **kwargs: Any) -> Any:
        self._fill()
        return plain(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


for _name in (
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
):
    setattr(EventList, _name, _changing(_name))
for _name in (
    "__contains__",
    "__add__",
    "__mul__",
    "__rmul__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__repr__",
    "copy",
    "index",
    "count",
):
    setattr(EventList, _name, _reading(_name))


class _Shown:
    """What a trace shows of the flags it was recorded with."""

    def __init__(self, traces: list[Any]) -> None:
        rows = [trace.ask("key_averages") for trace in traces]
        on_device = any(any(table["device"]) for table in rows)
        self.use_device = "cuda" if on_device else None
        self.profile_memory = any(
            any(table[c]) for table in rows for c in ("self_cpu_memory_bytes", "self_device_memory_bytes")
        )
        self.with_flops = any(any(table["flops"]) for table in rows)


def _restore_list(events: list, use_device: str | None, profile_memory: bool, with_flops: bool) -> EventList:
    return EventList(events, use_device=use_device, profile_memory=profile_memory, with_flops=with_flops)


# ---- averages of a source ----------------------------------------------------------------------------------


def _averages(events: EventList, index: int, by: str, python: bool) -> Iterator[FunctionEventAvg]:
    source = events._sources[index]
    table = source.averages(by, python)

    def first(number: int) -> Callable[[], FunctionEvent]:
        def find() -> FunctionEvent:
            events._look()
            return events._parts[index].of_slice(number)

        return find

    for row in zip(*(table[c] for c in table.columns)):
        yield _average(dict(zip(table.columns, row)), source.use_device, first)


def _average(
    row: dict[str, Any], use_device: str | None, first: Callable[[int], Callable[[], FunctionEvent]]
) -> FunctionEventAvg:
    average = FunctionEventAvg.__new__(FunctionEventAvg)
    of_device = bool(use_device)
    vars(average).update(
        key=row["name"],
        count=row["calls"],
        node_id=-1,
        is_async=row["async"],
        is_remote=False,
        is_legacy=False,
        use_device=use_device,
        cpu_time_total=row["cpu_ns"] / 1000,
        self_cpu_time_total=row["self_cpu_ns"] / 1000,
        device_time_total=row["device_ns"] / 1000 if of_device else 0,
        self_device_time_total=row["self_device_ns"] / 1000 if of_device else 0,
        cpu_memory_usage=row["cpu_memory_bytes"],
        self_cpu_memory_usage=row["self_cpu_memory_bytes"],
        device_memory_usage=row["device_memory_bytes"],
        self_device_memory_usage=row["self_device_memory_bytes"],
        flops=row["flops"],
        input_shapes=json.loads(row["shapes"]) if row["shapes"] else [],
        overload_name=row["overload"] or "",
        stack=[frame for frame in (row["stack"] or "").split(";") if frame and is_user_frame(frame)],
        scope=scope_of(row["name"], row["scope"]),
        device_type=device_type(row["device"], use_device),
        is_user_annotation=row["category"] in ("user_annotation", "gpu_user_annotation"),
        is_python_function=row["category"] == "python_function",
    )
    if row["event"] is None:
        vars(average).update(cpu_parent=None, cpu_children=[])
    else:
        vars(average)["_first"] = first(row["event"])
        if row["parent"] is None:
            vars(average)["cpu_parent"] = None
    return average


def _merged(sources: Iterable[Iterable[FunctionEventAvg]]) -> list[FunctionEventAvg]:
    """Averages of several recordings: rows of the same key become one."""
    lists = [list(rows) for rows in sources]
    if len(lists) == 1:
        return lists[0]
    merged: dict[tuple[Any, ...], FunctionEventAvg] = {}
    for row in (row for rows in lists for row in rows):
        key = (
            row.key,
            row.device_type,
            row.is_user_annotation,
            row.overload_name,
            str(row.input_shapes),
            *(row.stack or ()),
        )
        if key in merged:
            merged[key].add(row)
        else:
            merged[key] = row
    return list(merged.values())


def _averages_by_hand(
    events: Iterable[Any], shapes: bool, stack_n: int, overload: bool, python: bool
) -> list[FunctionEventAvg]:
    averages: dict[tuple[Any, ...], FunctionEventAvg] = {}
    for event in events:
        if getattr(event, "is_python_function", False) and not python:
            continue
        key = (
            event.key,
            event.node_id,
            str(event.device_type),
            event.is_legacy,
            event.is_user_annotation,
            *([event.overload_name] if overload else ()),
            *([str(event.input_shapes)] if shapes else ()),
            *((event.stack or ())[:stack_n] if stack_n > 0 else ()),
        )
        averages.setdefault(key, FunctionEventAvg()).add(event)
    return list(averages.values())
