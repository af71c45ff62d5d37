"""The text of torch.profiler's tables: EventList.table(). Byte for byte torch 2.15's, but for two things. With stacks
and FLOPs together torch prints the two last columns under each other's header; here each stands under its own. Where a
row's total time is more than the self times of all rows, because Python functions inside it have no row, torch prints
shares far above 100 %; here they, and the footer, are of everything recorded, and one row more has the rest."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_WIDTH, _GAP = 12, "  "
_LEFT_OUT = "Python, left out"  # as wide as torch's column of names is beside a step, which stays as it is
_ACCELERATORS = ("cuda", "xpu", "privateuse1", "mtia", "hpu")
# What people write, beside the attributes themselves: texts of several years and other profilers.
_MEANT = {
    "calls": "count",
    "num_calls": "count",
    "ncalls": "count",
    "name": "key",
    "cpu_total": "cpu_time_total",
    "cpu": "cpu_time_total",
    "self_cpu": "self_cpu_time_total",
    "self_cpu_time": "self_cpu_time_total",
    "cpu_time_avg": "cpu_time",
    "total": "cpu_time_total",
    "time": "cpu_time_total",
    "device_total": "device_time_total",
    "self_device": "self_device_time_total",
    "device": "device_time_total",
    "self_device_time": "self_device_time_total",
    "device_time_avg": "device_time",
    "cpu_memory": "cpu_memory_usage",
    "self_cpu_memory": "self_cpu_memory_usage",
    "device_memory": "device_memory_usage",
    "self_device_memory": "self_device_memory_usage",
    "cpu_mem": "cpu_memory_usage",
    "device_mem": "device_memory_usage",
    "memory": "self_cpu_memory_usage",
    "flop": "flops",
}
SORT_KEYS = (
    "cpu_time",
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "count",
    "flops",
    "key",
)


def format_time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def format_share(part: float, whole: float) -> str:
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def format_memory(nbytes: int) -> str:
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


def device_spelling(name: str) -> str:
    """cuda_time_total and its like, as the attribute is called for every accelerator."""
    for word in _ACCELERATORS:
        name = name.replace(word, "device")
    return name


def sort_attribute(sort_by: str, event: Any) -> str:
    """The attribute to sort by; AttributeError, with the key that was meant, when there is none such."""
    name = device_spelling(sort_by)
    if hasattr(event, name):
        return name
    near = _MEANT.get(name.lower()) or next(iter(difflib.get_close_matches(name.lower(), SORT_KEYS, 1, 0.6)), None)
    hint = f"; did you mean sort_by={near!r}?" if near else "."
    raise AttributeError(
        f"{type(event).__name__} has no attribute {sort_by!r} to sort by{hint} There are {', '.join(SORT_KEYS)}; "
        "device may be written cuda or xpu."
    )


class _Column(NamedTuple):
    header: str
    width: int
    cell: Callable[[Any], str]
    left: bool = False  # left-justified: the stack, which goes on below its row

    def put(self, text: str) -> str:
        return (text.ljust(self.width) if self.left else text.rjust(self.width)) + _GAP


class _Layout:
    """What a table of these events shows: its columns, and the totals that shares are taken of."""

    def __init__(
        self,
        events: Sequence[Any],
        *,
        profile_memory: bool,
        with_flops: bool,
        src_width: int | None,
        name_width: int | None,
        shapes_width: int | None,
        time_unit: str | None,
        overloads: bool,
        left_out: Callable[[], float],
    ) -> None:
        self.events, self.name_cap, self.src_cap = events, name_width, src_width
        self.overloads = overloads
        self.use_device = events[0].use_device
        self.has_device_time = any(e.self_device_time_total > 0 for e in events)
        if self.has_device_time and not self.use_device:
            raise RuntimeError("use_device is None, but there is device performance data.")
        self.device_name = self.use_device.upper() if self.use_device is not None else "None"
        self.cpu_total = sum(e.self_cpu_time_total for e in events)
        is_impossible = any(e.cpu_time_total > self.cpu_total for e in events if not e.is_async)
        self.left_out = left_out() if is_impossible else 0.0
        self.cpu_total += self.left_out
        self.device_total = sum(e.self_device_time_total for e in events if _counts_for_device(e))
        self.time_unit = time_unit
        self.source: _Column | None = None
        self.columns = self._names() + self._cpu() + (self._device() if self.has_device_time else [])
        if profile_memory:
            self.columns += self._memory()
        self.columns.append(_Column("# of Calls", _WIDTH, lambda e: str(e.count)))
        if any(e.node_id != -1 for e in events):
            self.columns.append(_Column("Node ID", _WIDTH, lambda e: str(e.node_id)))
        self.columns += self._shapes(shapes_width) + self._stack(src_width) + (self._flops() if with_flops else [])

    def time(self, us: float) -> str:
        scale = {"s": 1e6, "ms": 1e3, "us": 1.0}.get(self.time_unit or "")
        return format_time(us) if scale is None else f"{us / scale:.3f}{self.time_unit}"

    def _cut(self, text: str) -> str:
        cap = self.name_cap
        return text if cap is None or len(text) < cap - 3 else text[: cap - 3] + "..."

    def _names(self) -> list[_Column]:
        width = _capped(max(len(e.key) for e in self.events) + 4, self.name_cap)
        columns = [_Column("Name", width, lambda e: self._cut(e.key))]
        if self.overloads and any(e.overload_name for e in self.events):
            columns.append(_Column("Overload Name", width, lambda e: self._cut(e.overload_name)))
        return columns

    def _cpu(self) -> list[_Column]:
        return [
            _Column("Self CPU %", _WIDTH, lambda e: str(e.self_cpu_percent)),
            _Column("Self CPU", _WIDTH, lambda e: self.time(e.self_cpu_time_total)),
            _Column("CPU total %", _WIDTH, lambda e: str(e.total_cpu_percent)),
            _Column("CPU total", _WIDTH, lambda e: self.time(e.cpu_time_total)),
            _Column("CPU time avg", _WIDTH, lambda e: self.time(e.cpu_time)),
        ]

    def _device(self) -> list[_Column]:
        name = self.device_name
        return [
            _Column(f"Self {name}", _WIDTH, lambda e: self.time(e.self_device_time_total)),
            _Column(f"Self {name} %", _WIDTH, lambda e: str(e.total_device_percent)),
            _Column(f"{name} total", _WIDTH, lambda e: self.time(e.device_time_total)),
            _Column(f"{name} time avg", _WIDTH, lambda e: self.time(e.device_time)),
        ]

    def _memory(self) -> list[_Column]:
        columns = [
            _Column("CPU Mem", _WIDTH, lambda e: format_memory(e.cpu_memory_usage)),
            _Column("Self CPU Mem", _WIDTH, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
        if self.use_device and any(e.self_device_memory_usage > 0 for e in self.events):
            columns += [
                _Column(f"{self.device_name} Mem", _WIDTH, lambda e: format_memory(e.device_memory_usage)),
                _Column(f"Self {self.device_name} Mem", _WIDTH, lambda e: format_memory(e.self_device_memory_usage)),
            ]
        return columns

    def _shapes(self, cap: int | None) -> list[_Column]:
        if not any(e.input_shapes for e in self.events):
            return []
        width = _capped(max(len(str(e.input_shapes)) for e in self.events) + 4, cap)
        return [_Column("Input Shapes", width, lambda e: str(e.input_shapes)[:width])]

    def _stack(self, cap: int | None) -> list[_Column]:
        longest = max((len(frame) for e in self.events for frame in e.stack or ()), default=-1)
        if longest < 0:
            return []
        width = _capped(longest + 4, cap)
        self.source = _Column(
            "Source Location", width, lambda e: _tail(e.stack[0], width) if e.stack else "", left=True
        )
        return [self.source]

    def _flops(self) -> list[_Column]:
        least = min((e.flops for e in self.events if (e.flops or 0) > 0), default=0)
        if not least:
            return []
        units = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
        power = int(max(0.0, min(math.log10(least) / 3, len(units) - 1)))
        scale = 10.0 ** (-3 * power)
        return [
            _Column(
                f"Total {units[power]}", _WIDTH, lambda e: f"{e.flops * scale:8.3f}" if (e.flops or 0) > 0 else "--"
            )
        ]

    def set_shares(self, event: Any) -> None:
        """The attributes torch leaves on each row it prints."""
        event.self_cpu_percent = format_share(event.self_cpu_time_total, self.cpu_total)
        event.total_cpu_percent = 0 if event.is_async else format_share(event.cpu_time_total, self.cpu_total)
        if self.has_device_time:
            event.total_device_percent = format_share(event.self_device_time_total, self.device_total)

    def line(self, event: Any) -> str:
        self.set_shares(event)
        return "".join([c.put(c.cell(event)) for c in self.columns])

    def rest(self) -> list[str]:
        """The row of what has no other row and is in the total."""
        known = {
            "Name": self._cut(_LEFT_OUT),
            "Self CPU %": format_share(self.left_out, self.cpu_total),
            "Self CPU": self.time(self.left_out),
        }
        return ["".join(c.put(known.get(c.header, "--")) for c in self.columns)] if self.left_out else []

    def below(self, event: Any) -> list[str]:
        """The rest of the stack, one frame a line, and an empty line."""
        if self.source is None:
            return []
        width = self.source.width
        return [
            "".join(c.put(text if c is self.source else "") for c in self.columns)
            for text in [*(_tail(frame, width) for frame in event.stack[1:]), ""]
        ]


def _counts_for_device(event: Any) -> bool:
    """Device time is counted once: where the device did it, but not in the copies of annotations."""
    if event.device_type.name == "CPU":
        return event.is_legacy
    return event.device_type.name in ("CUDA", "PrivateUse1", "MTIA", "XPU") and not event.is_user_annotation


def _capped(width: int, cap: int | None) -> int:
    return width if cap is None else min(width, cap)


def _tail(text: str, width: int) -> str:
    """The end of a path that is too long, with dots in front."""
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    return "..." + text[3:] if len(text) > 3 else text


def build_table(
    events: Sequence[Any],
    *,
    sort_by: str | None = None,
    header: str | None = None,
    row_limit: int = 100,
    max_src_column_width: int | None = 75,
    max_name_column_width: int | None = 55,
    max_shapes_column_width: int | None = 80,
    with_flops: bool = False,
    profile_memory: bool = False,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
    overloads: bool = True,
    left_out: Callable[[], float] = float,
) -> str:
    """left_out: microseconds of self time of what has no row among the events; asked for only where needed."""
    if not events:
        return ""
    if sort_by is not None:
        name = sort_attribute(sort_by, events[0])
        events = sorted(events, key=lambda e: getattr(e, name), reverse=True)
    layout = _Layout(
        events,
        profile_memory=profile_memory,
        with_flops=with_flops,
        src_width=max_src_column_width,
        name_width=max_name_column_width,
        shapes_width=max_shapes_column_width,
        time_unit=time_unit,
        overloads=overloads,
        left_out=left_out,
    )
    rule = "".join("-" * c.width + _GAP for c in layout.columns)
    double = "=" * (len(rule) - len(_GAP))
    lines = [] if header is None else [double, header]
    if top_level_events_only:
        lines += [double, "This report only display top-level ops statistics"]
    lines += [rule, "".join(c.put(c.header) for c in layout.columns), rule]
    shown = 0
    for event in events:
        if shown == row_limit:
            break
        if top_level_events_only and event.cpu_parent is not None:
            continue
        shown += 1
        lines.append(layout.line(event))
        lines += layout.below(event)
    lines += [*layout.rest(), rule, f"Self CPU time total: {layout.time(layout.cpu_total)}"]
    if layout.has_device_time:
        lines.append(f"Self {layout.device_name} time total: {layout.time(layout.device_total)}")
    return "\n".join(lines) + "\n"
