"""Where FunctionEvents come from: the columns of the question key_averages, one row an event, and what else an event
may be asked for, fetched when it is."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from .recorded_ids import RecordedIds

# Names of arguments in a Kineto trace, and what FunctionEvent calls them where it keeps them apart.
_ARGS = (
    "External id",
    "Sequence number",
    "Fwd thread id",
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "Call stack",
    "CallFrom",
    "Module path",
    "Python id",
    "Python parent id",
    "Python module id",
    "device",
    "stream",
    "correlation",
)
METADATA = {
    "registers per thread": "registers_per_thread",
    "shared memory": "shared_memory",
    "grid": "grid",
    "block": "block",
    "priority": "priority",
    "blocks per SM": "blocks_per_sm",
    "warps per SM": "warps_per_sm",
    "occupancy": "occupancy",
    "est. achieved occupancy %": "est_occupancy_pct",
    "queued": "queued",
    "graph id": "graph_id",
    "graph node id": "graph_node_id",
    "stream": "stream",
    "context": "context",
    "channel": "channel",
    "channel_type": "channel_type",
    "hsa_queue": "hsa_queue",
    "bytes": "bytes",
    "memory bandwidth (GB/s)": "bandwidth_gb_s",
    "Collective name": "collective_name",
    "dtype": "dtype",
    "In msg nelems": "in_msg_nelems",
    "Out msg nelems": "out_msg_nelems",
    "In split size": "in_split_size",
    "Out split size": "out_split_size",
    "Global rank start": "global_rank_start",
    "Global rank stride": "global_rank_stride",
    "Group size": "group_size",
    "Process Group Name": "process_group_name",
    "Process Group Description": "process_group_desc",
    "Process Group Ranks": "group_ranks",
    "Rank": "rank",
    "Src Rank": "src_rank",
    "Dst Rank": "dst_rank",
    "Seq": "seq",
    "Is asynchronized op": "is_async",
}
_AUTOGRAD_FRAMES = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
)


class Kernel(NamedTuple):
    """Device work an operator launched; duration in microseconds."""

    name: str
    device: int
    duration: float


def is_user_frame(frame: str) -> bool:
    """False for the frames torch leaves out of stacks: those of autograd's own entry points."""
    return not any(file in frame and function in frame for file, function in _AUTOGRAD_FRAMES)


def at_line(frame: str, place: str | None) -> str:
    """net.py(7): forward, called from net.py:12, is net.py(12): forward; what was called from elsewhere stays."""
    file, _, line = (place or "").rpartition(":")
    head, _, rest = frame[len(file) :].partition(")")
    return f"{file}({line}){rest}" if file and frame.startswith(file) and head.startswith("(") else frame


def plain_shapes(dims: Any) -> list:
    """Input Dims as FunctionEvent.input_shapes has them: [] for a list of tensors."""
    return (
        [[] if any(isinstance(d, list) for d in shape) else shape for shape in dims] if isinstance(dims, list) else []
    )


def scope_of(name: str, scope: int) -> int:
    """torch's RecordScope of an event: what runs an autograd node is a function, and the node in it is backward."""
    return 0 if name.startswith("autograd::engine::evaluate_function: ") else scope


def python_value(text: str) -> Any:
    """One of an operator's Concrete Inputs, as torch has it: None for a tensor or None, numbers, bools and lists of
    them; what has no such spelling stays a text."""
    if not text:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _unpacked(value: Any) -> Any:
    """A list or an object is kept as its JSON text."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value


class EventSource:
    """The events of one trace, as torch's list has them: by start, what lasts longer first."""

    def __init__(self, trace: Any, use_device: str | None, start_ns: int | None, scope: dict[str, Any]) -> None:
        self.trace, self.use_device = trace, use_device
        self.shows_metadata = False  # expose_kineto_event_metadata of the experimental configuration
        self.scope = scope  # arguments of the question: of which process and threads
        self._start_ns = start_ns

    def averages(self, by: str, python: bool) -> Any:
        return self.trace.ask("key_averages", by=by, python=python, **self.scope)

    @cached_property
    def table(self) -> Any:
        return self.trace.ask("key_averages", by="event", **self.scope)

    @cached_property
    def columns(self) -> dict[str, Any]:
        numbers = {c: memoryview(self.table[c]) for c in self.table.columns if self.table[c].type == "int"}
        return {**numbers, **{c: self.table[c] for c in self.table.columns if c not in numbers}}

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def start_ns(self) -> int:
        """What event times count from: the start of the recording, else that of the first event."""
        if self._start_ns is not None:
            return self._start_ns
        return self.columns["start_ns"][0] if len(self) else 0

    @cached_property
    def row_of_slice(self) -> dict[int, int]:
        return {s: row for row, s in enumerate(self.table["event"]) if s is not None}

    @cached_property
    def tracks(self) -> list[dict[str, Any]]:
        return self.trace.ask("tracks").to_dicts()

    def thread(self, row: int) -> Any:
        tid = self.tracks[self.columns["track"][row]]["tid"]
        return int(tid) if tid.lstrip("-").isdigit() else tid

    def process(self, row: int) -> int:
        pid = self.tracks[self.columns["track"][row]]["pid"]
        return int(pid) if pid.lstrip("-").isdigit() else 0

    # ---- ids ----

    @cached_property
    def ids(self) -> RecordedIds | None:
        """Of a trace that has no ids in its args, as our recorder's; None: it has."""
        has_ids = any(any(v is not None for v in self.slices[name]) for name in ("External id", "Python id"))
        return None if has_ids else RecordedIds(self.slices)

    def external_id(self, row: int) -> int:
        number = self.table["event"][row]
        if number is None:
            return 0
        return self.slices["External id"][number] or 0 if self.ids is None else self.ids.external_id(number)

    def python_ids(self, row: int) -> tuple[int, int]:
        """(id, that of the function around it); -1: none."""
        number = self.table["event"][row]
        if number is None:
            return -1, -1
        if self.ids is not None:
            return self.ids.python_id(number), self.ids.python_parent_id(number)
        own, around = (self.slices[name][number] for name in ("Python id", "Python parent id"))
        return -1 if own is None else own, -1 if around is None else around

    def flow(self, row: int) -> tuple[int, int, bool]:
        """(id, type, does it start here); zeros: none."""
        number = self.table["event"][row]
        return (0, 0, False) if number is None or self.ids is None else self.ids.flow(number)

    def index(self, row: int) -> int | None:
        """The export's "Ev Idx"; None: it writes none, or the trace is not our recorder's."""
        number = self.table["event"][row]
        return None if number is None or self.ids is None else self.ids.index(number)

    # ---- the tree ----

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Rows of the direct children, by row."""
        result: dict[int, list[int]] = {}
        for row, parent in enumerate(self.table["parent"]):
            if parent is not None:
                result.setdefault(self.row_of_slice[parent], []).append(row)
        return result

    def parent(self, row: int) -> int | None:
        parent = self.table["parent"][row]
        return None if parent is None else self.row_of_slice[parent]

    # ---- all slices, one row each in the order of their numbers ----

    @cached_property
    def slices(self) -> Any:
        return self.trace.ask("events", args=_ARGS)

    def argument(self, row: int, name: str) -> Any:
        """One argument of an event; lists are read from their text."""
        number = self.table["event"][row]
        return None if number is None else self.slice_argument(number, name)

    def slice_argument(self, number: int, name: str) -> Any:
        return _unpacked(self.slices[name][number])

    def _row_around(self, number: int | None) -> int | None:
        """The row of a slice, or of what it became part of."""
        while number is not None and number not in self.row_of_slice:
            number = self.slices["parent"][number]
        return None if number is None else self.row_of_slice[number]

    @cached_property
    def kernels(self) -> dict[int, list[Kernel]]:
        """Device work by the row of the operator that launched it."""
        result: dict[int, list[Kernel]] = {}
        cause = self.slices["cause"]
        for row, number in enumerate(self.table["event"]):
            call = cause[number] if self.table["device"][row] and number is not None else None
            around = None if call is None else self._row_around(cause[call])
            if around is not None:
                device = self.slice_argument(number, "device")
                result.setdefault(around, []).append(
                    Kernel(self.table["name"][row], device or 0, self.columns["dur_ns"][row] / 1000)
                )
        return result

    def stack(self, row: int) -> list[str]:
        """Python frames, innermost first. Backward operators show where the forward operator was called."""
        number = self._stack_slice(row)
        if number is None:
            return []
        text = (
            None
            if self.slices["CallFrom"][number] and self.slices["category"][number] != "python_function"
            else self.slices["Call stack"][number]
        )
        frames = text.split(";") if text else self._frames_around(number)
        return [frame for frame in frames if frame and is_user_frame(frame)]

    def _stack_slice(self, row: int) -> int | None:
        at: int | None = row
        while at is not None:
            if self.columns["scope"][at] == 1:
                return self.slices["cause"][self.table["event"][at]]
            at = self.parent(at)
        return self.table["event"][row]

    def _frames_around(self, number: int) -> Iterator[str]:
        """Frames by the lines they were at, where a slice says whence it was called."""
        place = None if self.slices["category"][number] == "python_function" else self.slices["CallFrom"][number]
        by_lines = place is not None
        around = self.slices["parent"][number]
        while around is not None:
            if self.slices["category"][around] == "python_function":
                yield at_line(self.slices["name"][around], place)
                place = self.slices["CallFrom"][around] if by_lines else None
            around = self.slices["parent"][around]

    # ---- what only device work has ----

    @cached_property
    def _device_rows(self) -> Any:
        return self.trace.ask("events", args=list(METADATA))

    def metadata(self, row: int) -> dict[str, Any] | None:
        """The arguments of device work under their names in the trace; None for what the host did."""
        number = self.table["event"][row]
        if number is None or not self.table["device"][row]:
            return None
        names = {name: f"args.{name}" if f"args.{name}" in self._device_rows.columns else name for name in METADATA}
        values = {name: self._device_rows[column][number] for name, column in names.items()}
        return {name: _unpacked(value) for name, value in values.items() if value is not None} or None

    def metadata_fields(self, row: int) -> dict[str, Any] | None:
        """The same under the names of EventMetadata."""
        read = self.metadata(row)
        return None if read is None else {field: read.get(name) for name, field in METADATA.items()}
