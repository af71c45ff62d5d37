"""Blocks of memory of a recording: taken when, given back when, and inside of what."""
from __future__ import annotations

import bisect
from typing import Any, Iterator, NamedTuple, Optional

_DEVICES = {0: "cpu", 1: "cuda", 2: "cpu", 5: "cpu", 6: "cuda", 12: "xpu", 15: "hpu", 19: "mtia", 20: "privateuse1"}


class Place(NamedTuple):
    """What the thread was doing at the time."""
    name: Optional[str]  # outermost operator, None outside of any
    top: Optional[int]   # its row
    backward: bool
    pass_end_ns: int     # end of the backward pass
    optimizer: bool
    optimizer_end_ns: int
    loader: bool
    module: bool


class Block(NamedTuple):
    device: tuple[str, int]
    address: Optional[int]
    nbytes: int
    made_ns: Optional[int]   # None: before the recording
    freed_ns: Optional[int]  # None: not in the recording
    made_in: Optional[Place]
    freed_in: Optional[Place]


class _Thread:
    """The events of one track, for looking up what contains a time."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.starts: list[int] = []
        self.passes: list[tuple[int, int]] = []  # of backward: start, end

    def pass_end(self, ns: int) -> int:
        at = bisect.bisect_right(self.passes, (ns, 1 << 62)) - 1
        return self.passes[at][1] if at >= 0 else ns


class _Around(NamedTuple):
    """What is around a row, itself included."""
    top: Optional[int] = None  # outermost operator
    backward: bool = False
    optimizer: Optional[int] = None
    loader: bool = False
    module: bool = False


class _Places:
    """Looks up the place of a moment on a track."""

    def __init__(self, trace: Any, pid: Any) -> None:
        table = trace.ask("key_averages", by="event", pid=pid)
        self.name, starts = list(table["name"]), list(table["start_ns"])
        self.end = [start + dur for start, dur in zip(starts, table["dur_ns"])]
        slices, device, tracks = list(table["event"]), list(table["device"]), list(table["track"])
        row_of = {number: row for row, number in enumerate(slices) if number is not None}
        self.parent = [None if p is None else row_of[p] for p in table["parent"]]
        kinds = list(zip(table["category"], table["scope"]))
        self.around: list[_Around] = []
        self.threads: dict[int, _Thread] = {}
        for row, (category, scope) in enumerate(kinds):  # a parent has the smaller number
            self.around.append(self._around(row, category, scope))
            if slices[row] is not None and not device[row]:
                thread = self.threads.setdefault(tracks[row], _Thread())
                thread.rows.append(row)
                thread.starts.append(starts[row])
        for thread in self.threads.values():
            thread.passes = list(self._passes(thread))

    def _around(self, row: int, category: Optional[str], scope: int) -> _Around:
        outer = _NOTHING if self.parent[row] is None else self.around[self.parent[row]]
        if category == "cpu_op":
            if outer.top is None or (scope == 1 and not outer.backward):
                outer = outer._replace(top=row if outer.top is None else outer.top, backward=outer.backward or scope == 1)
        elif category == "python_function":
            if not outer.module and self.name[row].startswith("nn.Module: "):
                outer = outer._replace(module=True)
        elif category == "user_annotation":
            if self.name[row].startswith("Optimizer.step"):
                outer = outer._replace(optimizer=row)
            elif self.name[row].startswith("enumerate(Data"):
                outer = outer._replace(loader=True)
        return outer

    def _passes(self, thread: _Thread) -> Iterator[tuple[int, int]]:
        """Backward passes: outermost backward operators with no other outermost operator between them."""
        begin = end = None
        for row, start in zip(thread.rows, thread.starts):
            if self.around[row].top != row:
                continue
            if self.around[row].backward:
                begin = start if begin is None else begin
                end = self.end[row]
            elif begin is not None:
                yield begin, end
                begin = None
        if begin is not None:
            yield begin, end

    def at(self, track: int, ns: int) -> Place:
        thread = self.threads.get(track)
        at = bisect.bisect_right(thread.starts, ns) - 1 if thread else -1
        row = thread.rows[at] if at >= 0 else None
        while row is not None and self.end[row] <= ns:
            row = self.parent[row]
        around = _NOTHING if row is None else self.around[row]
        return Place(name=None if around.top is None else self.name[around.top], top=around.top, backward=around.backward,
                     pass_end_ns=thread.pass_end(ns) if around.backward else ns, optimizer=around.optimizer is not None,
                     optimizer_end_ns=ns if around.optimizer is None else self.end[around.optimizer], loader=around.loader, module=around.module)


_NOTHING = _Around()


def _memory_events(trace: Any) -> Iterator[tuple[int, int, tuple[str, int], Optional[int], int]]:
    """(track, time, device, address, bytes) in the order of time."""
    table = trace.ask("events", by="mark", args=("Device Type", "Device Id", "Addr", "Bytes"), where='name == "[memory]"')
    columns = (table[c] for c in ("track", "start_ns", "Device Type", "Device Id", "Addr", "Bytes"))
    for track, ns, kind, index, address, nbytes in zip(*columns):
        if nbytes and ns is not None and track is not None:
            device = _DEVICES.get(kind or 0, "cpu")
            yield track, ns, (device, 0 if device == "cpu" else max(index or 0, 0)), address, nbytes


def clock_base_ns(trace: Any) -> int:
    """What times of the trace count from on the system's clock."""
    rows = trace.ask("overview", where='quantity == "base_ns"').to_dicts()
    return int(rows[0]["value"]) if rows and rows[0]["value"] is not None else 0


def read_blocks(trace: Any, pid: Any = None) -> list[Block]:
    """Every block that was taken or given back. Frees are matched by device and address; what has no address is matched to nothing."""
    places, base = _Places(trace, pid), clock_base_ns(trace)
    live: dict[Any, tuple[int, int, Place]] = {}
    blocks: list[Block] = []
    for track, ns, device, address, nbytes in _memory_events(trace):
        place = places.at(track, ns)
        if nbytes > 0:
            forgotten = live.pop((device, address), None)  # its free was not recorded
            if forgotten is not None:
                blocks.append(_block(device, address, forgotten, ns, None, base))
            live[device, address] = (ns, nbytes, place)
        else:
            taken = live.pop((device, address), None)
            blocks.append(_block(device, address, taken or (None, -nbytes, None), ns, place, base))
    blocks += [_block(device, address, taken, None, None, base) for (device, address), taken in live.items()]
    return blocks


def _block(device: tuple[str, int], address: Any, taken: tuple[Any, int, Any], freed_ns: Optional[int], freed_in: Optional[Place],
           base: int) -> Block:
    made_ns, nbytes, made_in = taken
    if made_in is not None:
        made_in = made_in._replace(pass_end_ns=made_in.pass_end_ns + base, optimizer_end_ns=made_in.optimizer_end_ns + base)
    return Block(device, address if isinstance(address, int) else None, nbytes, None if made_ns is None else made_ns + base,
                 None if freed_ns is None else freed_ns + base, made_in, freed_in)
