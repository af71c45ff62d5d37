"""Allocations and frees of a trace as a list, and as the snapshot that torch's memory viewers read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple


class Frame(NamedTuple):
    filename: str
    line: int
    name: str


class Entry(NamedTuple):
    action: str  # "alloc" or "free"
    addr: int
    size: int
    time_ns: int
    op: str  # innermost operator around it, "" = none
    frames: tuple[Frame, ...]  # of Python, from the inside out


_FRAME = re.compile(r"(.*)\((\d+)\): (.*)")


def _frames(text: str) -> tuple[Frame, ...]:
    return tuple(Frame(m[1], int(m[2]), m[3]) for m in map(_FRAME.fullmatch, text.split(";")) if m)


class _Around:
    """The innermost operator around a time on one track, for times in rising order."""

    def __init__(self, slices: Iterator[dict[str, Any]]):
        self._slices, self._next = slices, next(slices, None)
        self._open: list[dict[str, Any]] = []

    def at(self, time_ns: int) -> dict[str, Any] | None:
        while self._next is not None and self._next["start_ns"] <= time_ns:
            self._close(self._next["start_ns"])
            self._open.append(self._next)
            self._next = next(self._slices, None)
        self._close(time_ns)
        return self._open[-1] if self._open else None

    def _close(self, time_ns: int) -> None:
        while self._open and self._open[-1]["end_ns"] < time_ns:
            self._open.pop()


def cpu_entries(trace: Any) -> list[Entry]:
    """In the order of time."""
    marks = trace.sql(
        "SELECT track, ts_ns, args FROM marks WHERE name = '[memory]' ORDER BY track, ts_ns, id"
    ).to_dicts()
    entries: list[Entry] = []
    known: dict[str, tuple[Frame, ...]] = {"": ()}
    around: dict[int, _Around] = {}
    for mark in marks:
        track = mark["track"]
        if track not in around:
            around[track] = _Around(
                iter(
                    trace.sql(
                        f"SELECT start_ns, end_ns, name, arg(id, 'Call stack') AS stack FROM slices WHERE track = {int(track)} AND class = 'op' ORDER BY start_ns, dur_ns DESC"
                    )
                )
            )
        args = json.loads(mark["args"])
        if args.get("Device Type", 0) != 0:
            continue
        op = around[track].at(mark["ts_ns"])
        stack = (op["stack"] or "") if op else ""
        if stack not in known:
            known[stack] = _frames(stack)
        size = args["Bytes"]
        entries.append(
            Entry(
                "alloc" if size >= 0 else "free",
                args.get("Addr", 0),
                abs(size),
                mark["ts_ns"],
                op["name"] if op else "",
                known[stack],
            )
        )
    entries.sort(key=lambda entry: entry.time_ns)
    return entries


def live_at_end(entries: list[Entry]) -> list[Entry]:
    alive: dict[int, Entry] = {}
    for entry in entries:
        if entry.action == "alloc":
            alive[entry.addr] = entry
        else:
            alive.pop(entry.addr, None)
    return list(alive.values())


def _frames_of(entry: Entry) -> list[dict[str, Any]]:
    own = [{"filename": "", "line": 0, "name": entry.op}] if entry.op else []
    return own + [frame._asdict() for frame in entry.frames]


def base_ns(trace: Any) -> int:
    """The wall-clock time that the trace's times count from."""
    base = trace.ask("overview", where='quantity == "base_ns"')["value"]
    return int(base[0]) if len(base) and base[0] is not None else 0


def snapshot_of(entries: list[Entry], alive: list[Entry], base: int) -> dict[str, Any]:
    """The layout of torch.cuda.memory._snapshot(), the CPU being device 0, as device_type says: a block that is alive
    is a segment of its own. base: the wall-clock time in ns that the entries' times count from."""
    actions = {"alloc": "alloc", "free": "free_completed"}
    trace = [
        {
            "action": actions[entry.action],
            "addr": entry.addr,
            "size": entry.size,
            "stream": 0,
            "time_us": (base + entry.time_ns) // 1000,
            "compile_context": "N/A",
            "user_metadata": "",
            "pool_id": (0, 0),
            "frames": _frames_of(entry),
        }
        for entry in entries
    ]
    segments = []
    for entry in sorted(alive, key=lambda entry: entry.addr):
        frames = _frames_of(entry)
        block = {
            "address": entry.addr,
            "size": entry.size,
            "requested_size": entry.size,
            "state": "active_allocated",
            "frames": frames,
        }
        segments.append(
            {
                "device": 0,
                "address": entry.addr,
                "total_size": entry.size,
                "allocated_size": entry.size,
                "active_size": entry.size,
                "requested_size": entry.size,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": frames,
                "blocks": [block],
            }
        )
    return {
        "segments": segments,
        "device_traces": [trace],
        "allocator_settings": {},
        "external_annotations": [],
        "device_type": "cpu",
    }
