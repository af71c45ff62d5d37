"""A critical path's nodes and edges as networkx and HTA show them, made when they are looked at; and the longest way
through edges with changed weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from .. import _frames

# Calls that wait for the device: HTA sets no weight on the edge to their end.
BLOCKING = {
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync",
}


class CPEdgeType(Enum):
    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


@dataclass(frozen=True)
class CPEdge:
    """From node to node; weight in µs."""

    begin: int
    end: int
    weight: float = 0
    type: CPEdgeType = CPEdgeType.OPERATOR_KERNEL


class CPNode(NamedTuple):
    """The start or the end of an event. idx: twice the event's index, plus one for the end; ts as in the frames."""

    idx: int = -1
    ev_idx: int = -1
    ts: float = 0
    is_start: bool = False
    is_blocking: bool = False


class Nodes:
    """The nodes of a graph by number; in turn, they come by their time."""

    def __init__(self, nodes: list[int], rows: Any, zero_us: float):
        """rows: an answer to rows with index, name, ts_us and dur_us."""
        import numpy

        index = _frames.integers(rows, "index")
        size = (int(index.max()) if len(index) else 0) + 1
        self._start, self._end, self._blocks = numpy.zeros(size), numpy.zeros(size), numpy.zeros(size, dtype=bool)
        ts = _frames.reals(rows, "ts_us") + zero_us
        self._start[index], self._end[index] = ts, ts + _frames.reals(rows, "dur_us")
        numbers, names = _frames.codes(rows, "name")
        self._blocks[index] = numpy.array([name in BLOCKING for name in names] or [False])[numbers]
        self._known, self._order = set(nodes), nodes

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, node: object) -> bool:
        return node in self._known

    def __getitem__(self, node: int) -> CPNode:
        if node not in self._known:
            raise IndexError(f"the graph has no node {node}")
        event, is_end = divmod(node, 2)
        ts = (self._end if is_end else self._start)[event]
        return CPNode(node, event, float(ts), not is_end, bool(self._blocks[event]))

    def __iter__(self) -> Iterator[CPNode]:
        return iter(sorted((self[node] for node in self._order), key=lambda node: (node.ts, node.idx)))


class Edges:
    """The edges of a graph: pairs of nodes in turn; [u, v] is {"weight": …, "object": the CPEdge}, where weight may
    be changed."""

    def __init__(self, count: int, pairs: Callable[[], Any], objects: Callable[[], Iterator[CPEdge]]):
        self._count, self._pairs, self._objects = count, pairs, objects
        self.data: dict[tuple[int, int], dict[str, Any]] | None = None  # once a caller has looked at one

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._pairs())

    def _all(self) -> dict[tuple[int, int], dict[str, Any]]:
        if self.data is None:
            self.data = {(edge.begin, edge.end): {"weight": edge.weight, "object": edge} for edge in self._objects()}
        return self.data

    def __contains__(self, pair: object) -> bool:
        return pair in self._all()

    def __getitem__(self, pair: tuple[int, int]) -> dict[str, Any]:
        return self._all()[tuple(pair)]  # type: ignore[index]  # a pair

    def get(self, pair: tuple[int, int], default: Any = None) -> Any:
        return self._all().get(pair, default)

    def __call__(self, data: Any = False) -> list[tuple]:
        """As networkx: pairs, with data=True each with its dict, with a name in it each with that."""
        if data is False:
            return list(self)
        return [(u, v, of if data is True else of[data]) for (u, v), of in self._all().items()]


def longest(edges: dict[tuple[int, int], dict[str, Any]]) -> list[tuple[int, int]]:
    """The pairs of the longest way by weight; below zero counts as none. A circle is a ValueError."""
    out: dict[int, list[tuple[int, float]]] = {}
    waiting: dict[int, int] = {}
    for (u, v), of in edges.items():
        out.setdefault(u, []).append((v, max(of["weight"], 0)))
        out.setdefault(v, [])
        waiting[v] = waiting.get(v, 0) + 1
    ready = [node for node in sorted(out) if node not in waiting]
    length = dict.fromkeys(out, 0.0)
    before: dict[int, int | None] = dict.fromkeys(out)
    seen = 0
    while ready:
        u = ready.pop()
        seen += 1
        for v, weight in out[u]:
            if before[v] is None or length[u] + weight > length[v]:
                length[v], before[v] = length[u] + weight, u
            waiting[v] -= 1
            if not waiting[v]:
                ready.append(v)
    if seen < len(out):
        raise ValueError("the edges lead round in a circle: there is no longest way")
    at = max(length, key=length.__getitem__, default=None)
    path: list[tuple[int, int]] = []
    while at is not None and (earlier := before[at]) is not None:
        path.append((earlier, at))
        at = earlier
    return path[::-1]
