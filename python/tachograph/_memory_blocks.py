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


class _Places:
    """Looks up the place of a moment on a track."""

    def __init__(self, trace: Any, pid: Any) -> None:
        table = trace.ask("key_averages", by="event", pid=pid)
        self.start, self.dur = list(table["start_ns"]), list(table["dur_ns"])
        self.name, self.category, self.scope = list(table["name"]), list(table["category"]), list(table["scope"])
        slice_of = list(table["event"])
        row_of = {number: row for row, number in enumerate(slice_of) if number is not None}
        self.parent = [None if p is None else row_of[p] for p in table["parent"]]
        self.threads: dict[int, _Thread] = {}
        for row, track in enumerate(table["track"]):
            if slice_of[row] is not None and not table["device"][row]:
                thread = self.threads.setdefault(track, _Thread())
                thread.rows.append(row)
                thread.starts.append(self.start[row])
        for thread in self.threads.values():
            thread.passes = list(self._passes(thread))

    def _passes(self, thread: _Thread) -> Iterator[tuple[int, int]]:
        """Backward passes: outermost backward operators with no other outermost operator between them."""
        begin = end = None
        for row in thread.rows:
            if self.category[row] != "cpu_op" or any(self.category[up] == "cpu_op" for up in self._around(self.parent[row])):
                continue
            if self.scope[row] == 1:
                begin = self.start[row] if begin is None else begin
                end = self.start[row] + self.dur[row]
            elif begin is not None:
                yield begin, end
                begin = None
        if begin is not None:
            yield begin, end

    def _around(self, row: Optional[int]) -> Iterator[int]:
        while row is not None:
            yield row
            row = self.parent[row]

    def at(self, track: int, ns: int) -> Place:
        thread = self.threads.get(track)
        at = bisect.bisect_right(thread.starts, ns) - 1 if thread else -1
        rows = [row for row in self._around(thread.rows[at]) if self.start[row] + self.dur[row] > ns] if at >= 0 else []
        operators = [row for row in rows if self.category[row] == "cpu_op"]
        top = operators[-1] if operators else None
        backward = any(self.scope[row] == 1 for row in operators)
        names = [self.name[row] for row in rows]
        optimizer = next((row for row in rows if self.name[row].startswith("Optimizer.step")), None)
        return Place(name=None if top is None else self.name[top], top=top, backward=backward, pass_end_ns=thread.pass_end(ns) if backward else ns,
                     optimizer=optimizer is not None, optimizer_end_ns=ns if optimizer is None else self.start[optimizer] + self.dur[optimizer],
                     loader=any(name.startswith("enumerate(Data") for name in names),
                     module=any(name.startswith("nn.Module: ") for name in names))


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
