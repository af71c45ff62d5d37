"""Memory over time by what it was for: export_memory_timeline() and _memory_profile() of the profiler.

The engine knows what each block of memory was for, and from when to when (the question memory_blocks). torch follows
versions of tensors; a block has one category for the whole of its life, so there is no action INCREMENT_VERSION."""

from __future__ import annotations

import enum
import gzip
import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from .. import TachographError
from .._collect.live_tensors import LiveTensors
from .._say import warn
from .history import base_ns
from .page import page


class Category(enum.Enum):
    INPUT = enum.auto()
    TEMPORARY = enum.auto()
    ACTIVATION = enum.auto()
    GRADIENT = enum.auto()
    AUTOGRAD_DETAIL = enum.auto()
    PARAMETER = enum.auto()
    OPTIMIZER_STATE = enum.auto()


class Action(enum.Enum):
    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


# The order in which files name the categories, and their colours; None: unknown.
COLOURS: dict[Category | None, str] = {
    Category.PARAMETER: "darkgreen",
    Category.OPTIMIZER_STATE: "goldenrod",
    Category.INPUT: "black",
    Category.TEMPORARY: "mediumpurple",
    Category.ACTIVATION: "red",
    Category.GRADIENT: "mediumblue",
    Category.AUTOGRAD_DETAIL: "royalblue",
    None: "grey",
}
_INDEX = {category: i for i, category in enumerate(COLOURS)}
_BEFORE = -1  # time of what was there when the recording began


class Change(NamedTuple):
    """One step of the timeline; time_ns is that of the system's clock, -1 for what was there before."""

    time_ns: int
    action: Action
    category: Category | None
    nbytes: int


class Block(NamedTuple):
    device: tuple[str, int]
    address: int | None
    nbytes: int
    made_ns: int | None  # of the system's clock; None: before the recording
    freed_ns: int | None  # None: not in the recording
    category: Category | None


def read_blocks(trace: Any, pid: int | None = None) -> list[Block]:
    """Every block that was taken or given back, of one process or of all."""
    base = base_ns(trace)
    columns = ("track", "device", "category", "bytes", "made_ns", "freed_ns", "address")
    try:
        table = trace.ask("memory_blocks")
    except TachographError as e:
        if e.code != "NO_DATA":
            raise
        return []
    tracks = {row["track"] for row in trace.ask("tracks") if pid is None or row["pid"] == str(pid)}

    def moment(ns: int | None) -> int | None:
        return None if ns is None else ns + base

    return [
        Block(_device(device), address, nbytes, moment(made), moment(freed), Category.__members__.get(category.upper()))
        for track, device, category, nbytes, made, freed, address in zip(*(table[c] for c in columns))
        if track in tracks
    ]


def _device(name: str) -> tuple[str, int]:
    """As torch names devices: "GPU1" is ("cuda", 1), "XPU0" ("xpu", 0), "type20:0" ("privateuse1", 0)."""
    found = re.fullmatch(r"(type\d+:|[A-Z]+)(-?\d+)", name)
    return (_DEVICES.get(found[1], "cpu"), max(int(found[2]), 0)) if found else ("cpu", 0)


_DEVICES = {
    "GPU": "cuda",
    "XPU": "xpu",
    "MPS": "mps",
    "HPU": "hpu",
    "MTIA": "mtia",
    "type6:": "cuda",
    "type20:": "privateuse1",
}


class MemoryProfile:
    """Blocks of memory of a window and what each was for. `missing`: what the recording does not have and this has to
    do without."""

    def __init__(self, trace: Any, profile: Any = None) -> None:
        self.blocks = read_blocks(trace, profile._trace_scope(trace).get("pid") if profile is not None else None)
        self.missing: list[str] = []
        self.live = LiveTensors(())
        if self.blocks and not trace.ask("events", by="mark", where='name == "[tensor]"', limit=1):
            self._ask_live_tensors()

    def _ask_live_tensors(self) -> None:
        """The recording does not say what its tensors are: models and optimizers that are still there do."""
        self.live = LiveTensors()
        self.missing.append("identity of tensors: categories follow from where and when blocks were taken and freed")
        if not self.live:
            self.missing.append(
                "a model or optimizer that is still there: parameters from before the recording are not shown"
            )
        self.blocks = [b._replace(category=self._category(b)) for b in self.blocks]

    def _category(self, block: Block) -> Category | None:
        kind = None if block.freed_ns is not None else self.live.kind_of(block.device, block.address, block.nbytes)
        return block.category if kind is None else Category.__members__.get(kind.upper())

    @cached_property
    def changes(self) -> dict[tuple[str, int], list[Change]]:
        """The timeline by device (type, index), in the order of time."""
        result: dict[tuple[str, int], list[Change]] = {}
        for block in self.blocks:
            begin = (
                Change(_BEFORE, Action.PREEXISTING, block.category, block.nbytes)
                if block.made_ns is None
                else Change(block.made_ns, Action.CREATE, block.category, block.nbytes)
            )
            result.setdefault(block.device, []).append(begin)
            if block.freed_ns is not None:
                result[block.device].append(Change(block.freed_ns, Action.DESTROY, block.category, block.nbytes))
        for h in self.live.before({(block.device, block.address) for block in self.blocks}):
            result.setdefault(h.device, []).append(
                Change(_BEFORE, Action.PREEXISTING, Category.__members__.get(h.kind.upper()), h.nbytes)
            )
        for changes in result.values():
            changes.sort(key=lambda c: (c.time_ns, c.action.value))
        return result

    @property
    def timeline(self) -> list[tuple[int, Action, Category | None, int]]:
        """All devices: (time, action, category, bytes)."""
        return sorted(
            ((c.time_ns, c.action, c.category, c.nbytes) for changes in self.changes.values() for c in changes),
            key=lambda c: (c[0], c[1].value),
        )


class MemoryProfileTimeline:
    """The timeline in the three forms in which it is written."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.profile = memory_profile

    def _of_device(self, device: str) -> list[Change]:
        kind, _, index = device.partition(":")
        found = [
            changes
            for (k, i), changes in self.profile.changes.items()
            if k == kind and (kind == "cpu" or i == int(index or 0))
        ]
        return found[0] if found else []

    def _coalesce_timeline(self, device: str) -> tuple[list[int], list[list[int]]]:
        """Times in microseconds, and at each the bytes by category behind a leading 0."""
        times: list[int] = []
        sizes: list[list[int]] = []
        for change in self._of_device(device):
            us = change.time_ns if change.time_ns == _BEFORE else change.time_ns // 1000
            if not times or us != times[-1]:
                times.append(us)
                sizes.append(sizes[-1].copy() if sizes else [0] * (len(_INDEX) + 1))
            sizes[-1][_INDEX[change.category] + 1] += (
                -change.nbytes if change.action is Action.DESTROY else change.nbytes
            )
        first = min((t for t in times if t != _BEFORE), default=_BEFORE)
        return [first if t == _BEFORE else t for t in times], sizes

    def _raw(self, device: str) -> Iterator[tuple[int, int, int, int]]:
        for c in self._of_device(device):
            yield c.time_ns, c.action.value, -c.nbytes if c.action is Action.DESTROY else c.nbytes, _INDEX[c.category]

    def export_memory_timeline(self, path: str, device: str) -> None:
        _write(path, json.dumps(self._coalesce_timeline(device)))

    def export_memory_timeline_raw(self, path: str, device: str) -> None:
        _write(path, json.dumps(list(self._raw(device))))

    def export_memory_timeline_html(
        self, path: str, device: str, figsize: Any = None, title: str | None = None
    ) -> None:
        """One page that needs nothing else; figsize is of no use here."""
        times, sizes = self._coalesce_timeline(device)
        names = ["Unknown" if category is None else category.name for category in COLOURS]
        _write(
            path,
            page(
                title or f"Memory of {device}",
                times,
                [row[1:] for row in sizes],
                names,
                list(COLOURS.values()),
                self.profile.missing,
            ),
        )


def _write(path: str, text: str) -> None:
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def export_memory_timeline(memory_profile: MemoryProfile, path: str, device: str) -> MemoryProfileTimeline:
    """By the end of the path: .html a page, raw.json.gz single events, else times and sizes as JSON, packed if .gz."""
    timeline = MemoryProfileTimeline(memory_profile)
    if not timeline._of_device(device):
        there = sorted({kind if kind == "cpu" else f"{kind}:{index}" for kind, index in memory_profile.changes})
        warn(
            f"export_memory_timeline: no memory of {device} was recorded, so {path} is empty"
            + (f"; there is memory of {', '.join(there)}" if there else "")
        )
    if str(path).endswith(".html"):
        timeline.export_memory_timeline_html(path, device)
    elif str(path).endswith("raw.json.gz"):
        timeline.export_memory_timeline_raw(path, device)
    else:
        timeline.export_memory_timeline(path, device)
    return timeline
