"""Memory over time by what it was for: export_memory_timeline() and _memory_profile() of the profiler.

torch follows every tensor through every operator; a recording of ours has blocks of memory, the operators and annotations in
which they were taken and given back, and at its end the model and optimizer that are still there. A block's category follows
from these (see `category_of`), for the whole of its life: there are no versions, so no action INCREMENT_VERSION."""
from __future__ import annotations

import enum
import gzip
import json
from functools import cached_property
from typing import Any, Iterator, NamedTuple, Optional

from ._live_tensors import LiveTensors
from ._memory_blocks import Block, read_blocks
from ._memory_page import page


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
COLOURS: dict[Optional[Category], str] = {
    Category.PARAMETER: "darkgreen", Category.OPTIMIZER_STATE: "goldenrod", Category.INPUT: "black", Category.TEMPORARY: "mediumpurple",
    Category.ACTIVATION: "red", Category.GRADIENT: "mediumblue", Category.AUTOGRAD_DETAIL: "royalblue", None: "grey"}
_INDEX = {category: i for i, category in enumerate(COLOURS)}
_BEFORE = -1  # time of what was there when the recording began
# Operators that bring data in, where they stand outside of modules and of the backward pass.
_SOURCES = ("aten::empty", "aten::zeros", "aten::ones", "aten::full", "aten::rand", "aten::arange", "aten::linspace", "aten::eye", "aten::to",
            "aten::_to_copy", "aten::stack", "aten::pin_memory", "aten::lift", "aten::clone", "aten::tensor", "aten::normal", "aten::one_hot",
            "aten::scalar_tensor", "aten::from_file", "aten::_pin_memory")


class Change(NamedTuple):
    """One step of the timeline; time_ns is that of the system's clock, -1 for what was there before."""
    time_ns: int
    action: Action
    category: Optional[Category]
    nbytes: int


def category_of(block: Block, live: LiveTensors) -> Optional[Category]:
    """The first that fits, in the order of torch's own inference: what live objects say; what outlives the backward pass or an
    operator it was made in; what was made outside of modules to bring data in; what the forward pass made."""
    known = live.kind_of(block) if block.freed_ns is None else None
    if known is not None:
        return Category[known]
    made, freed = block.made_in, block.freed_in
    if made is None:
        return None
    if made.backward:
        if freed is not None and freed.top == made.top:
            return Category.TEMPORARY
        return Category.AUTOGRAD_DETAIL if block.freed_ns is not None and block.freed_ns <= made.pass_end_ns else Category.GRADIENT
    if freed is not None and made.top is not None and freed.top == made.top:
        return Category.TEMPORARY
    if made.optimizer:
        outlives = block.freed_ns is None or block.freed_ns > made.optimizer_end_ns
        return Category.OPTIMIZER_STATE if outlives else Category.TEMPORARY
    if made.loader or (made.name is not None and made.name.startswith(_SOURCES) and not made.module):
        return Category.INPUT
    return Category.ACTIVATION if made.name is not None else None


class MemoryProfile:
    """Blocks of memory of a window and what each was for. `missing`: what the recording does not have and this has to do without."""

    def __init__(self, trace: Any, profile: Any = None) -> None:
        self.blocks = read_blocks(trace, profile._trace_scope(trace).get("pid") if profile is not None else None)
        self.live = LiveTensors() if self.blocks else LiveTensors(())
        self.missing = ["identity of tensors: categories are those of blocks, by where each was taken and given back"]
        if not self.live:
            self.missing.append("a model or optimizer that is still there: parameters from before the recording are not shown")

    @cached_property
    def changes(self) -> dict[tuple[str, int], list[Change]]:
        """The timeline by device (type, index), in the order of time."""
        result: dict[tuple[str, int], list[Change]] = {}
        for block in self.blocks:
            category = category_of(block, self.live)
            begin = Change(_BEFORE, Action.PREEXISTING, category, block.nbytes) if block.made_ns is None else \
                Change(block.made_ns, Action.CREATE, category, block.nbytes)
            result.setdefault(block.device, []).append(begin)
            if block.freed_ns is not None:
                result[block.device].append(Change(block.freed_ns, Action.DESTROY, category, block.nbytes))
        for device, kind, nbytes in self.live.before(self.blocks):
            result.setdefault(device, []).append(Change(_BEFORE, Action.PREEXISTING, Category[kind], nbytes))
        for changes in result.values():
            changes.sort(key=lambda c: (c.time_ns, c.action.value))
        return result

    @property
    def timeline(self) -> list[tuple[int, Action, Optional[Category], int]]:
        """All devices: (time, action, category, bytes)."""
        return sorted((tuple(c) for changes in self.changes.values() for c in changes), key=lambda c: (c[0], c[1].value))


class MemoryProfileTimeline:
    """The timeline in the three forms in which it is written."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.profile = memory_profile

    def _of_device(self, device: str) -> list[Change]:
        kind, _, index = device.partition(":")
        found = [changes for (k, i), changes in self.profile.changes.items() if k == kind and (kind == "cpu" or i == int(index or 0))]
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
            sizes[-1][_INDEX[change.category] + 1] += -change.nbytes if change.action is Action.DESTROY else change.nbytes
        first = min((t for t in times if t != _BEFORE), default=_BEFORE)
        return [first if t == _BEFORE else t for t in times], sizes

    def _raw(self, device: str) -> Iterator[tuple[int, int, int, int]]:
        for c in self._of_device(device):
            yield c.time_ns, c.action.value, -c.nbytes if c.action is Action.DESTROY else c.nbytes, _INDEX[c.category]

    def export_memory_timeline(self, path: str, device: str) -> None:
        _write(path, json.dumps(self._coalesce_timeline(device)))

    def export_memory_timeline_raw(self, path: str, device: str) -> None:
        _write(path, json.dumps(list(self._raw(device))))

    def export_memory_timeline_html(self, path: str, device: str, figsize: Any = None, title: Optional[str] = None) -> None:
        """One page that needs nothing else; figsize is of no use here."""
        times, sizes = self._coalesce_timeline(device)
        names = ["Unknown" if category is None else category.name for category in COLOURS]
        _write(path, page(title or f"Memory of {device}", times, [row[1:] for row in sizes], names, list(COLOURS.values()), self.profile.missing))


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
    if str(path).endswith(".html"):
        timeline.export_memory_timeline_html(path, device)
    elif str(path).endswith("raw.json.gz"):
        timeline.export_memory_timeline_raw(path, device)
    else:
        timeline.export_memory_timeline(path, device)
    return timeline
