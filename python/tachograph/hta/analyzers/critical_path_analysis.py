"""The critical path of a rank: a graph of starts and ends, the longest way through it, and what its time was spent on."""
from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from enum import Enum
from typing import Any, Iterator, NamedTuple, Optional, Union

from .. import _frames
from .._engine import give_back
from .._overlay import packed_export
from ..common.trace import Trace


class CPEdgeType(Enum):
    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


KINDS = {"operator": CPEdgeType.OPERATOR_KERNEL, "dependency": CPEdgeType.DEPENDENCY, "launch_delay": CPEdgeType.KERNEL_LAUNCH_DELAY,
         "kernel_delay": CPEdgeType.KERNEL_KERNEL_DELAY, "sync_dependency": CPEdgeType.SYNC_DEPENDENCY}
BREAKDOWN = [("event_idx", "float64"), ("duration", "float64"), ("type", "object"), ("s_name", "object"), ("cat", "float64"), ("pid", "object"),
             ("tid", "object"), ("stream", "float64"), ("index", "float64"), ("bound_by", "object")]


@dataclass(frozen=True)
class CPEdge:
    """From node to node; weight in µs."""
    begin: int
    end: int
    weight: float = 0
    type: CPEdgeType = CPEdgeType.OPERATOR_KERNEL


class CPNode(NamedTuple):
    """The start or the end of an event. idx: twice the event's index, plus one for the end."""
    idx: int = -1
    ev_idx: int = -1
    ts: float = 0
    is_start: bool = False


class _Edges:
    """Edges of an answer as arrays: their nodes, weights and kinds, and the event each is booked on."""

    def __init__(self, table: Any):
        import numpy
        ends = [(_frames.integers(table, f"{side}_index"), numpy.asarray(table[f"{side}_end"]) > 0) for side in ("from", "to")]
        self.begin, self.end = (2 * index + is_end for index, is_end in ends)
        self.weight = _frames.micros(table, "weight_ns")
        self.kind = _frames.texts(table, "kind")
        self.start = _frames.integers(table, "start_ns")
        self.event = _frames.integers(table, "index")

    def __len__(self) -> int:
        return len(self.begin)

    def objects(self) -> Iterator[CPEdge]:
        for begin, end, weight, kind in zip(self.begin.tolist(), self.end.tolist(), self.weight.tolist(), self.kind):
            yield CPEdge(begin, end, weight, KINDS[kind])


class CPGraph:
    """What critical_path_analysis gives. Nothing of it is a networkx graph; nodes and edges are made when they are looked at."""

    def __init__(self, t: Trace, rank: int, question: dict[str, Any]):
        self.trace, self.rank, self.question = t, rank, question
        give_back()  # what stands beside the graph, the largest thing that the engine makes for an answer
        self._known: dict[str, Any] = {"path table": self._ask("edge")}

    def _ask(self, by: str, **more: Any) -> Any:
        return self.trace.ask("critical_path", self.rank, by=by, **self.question, **more)

    @property
    def found(self) -> bool:
        return self._path_table() is not None and len(self._path_table()) > 0

    def _once(self, name: str, make: Any) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def _path_table(self) -> Any:
        return self._known["path table"]

    def _sizes(self) -> Any:
        return self._once("sizes", lambda: self._ask("rank"))

    def _path(self) -> _Edges:
        return self._once("path", lambda: _Edges(self._path_table()))

    def _all(self) -> _Edges:
        return self._once("all", lambda: _Edges(self._ask("edge", edges="all")))

    # ---- the graph -------------------------------------------------------------------------------------------------------------

    def number_of_nodes(self) -> int:
        return self._sizes()["graph_nodes"][0] if self.found else 0

    def number_of_edges(self) -> int:
        return self._sizes()["graph_edges"][0] if self.found else 0

    @property
    def edges(self) -> list[tuple[int, int]]:
        return list(zip(self._all().begin.tolist(), self._all().end.tolist()))

    def edge_objects(self) -> Iterator[CPEdge]:
        return self._all().objects()

    @property
    def nodes(self) -> list[int]:
        return sorted({*self._all().begin.tolist(), *self._all().end.tolist()})

    def get_nodes_for_event(self, ev_id: int) -> tuple[Optional[int], Optional[int]]:
        """The nodes of an event's start and end; None where it has none."""
        known = self._once("node set", lambda: set(self.nodes))
        return tuple(node if node in known else None for node in (2 * ev_id, 2 * ev_id + 1))  # type: ignore[return-value]

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        return edge.begin // 2, edge.end // 2

    def get_event_attribution_for_edge(self, edge: CPEdge) -> Optional[int]:
        """The event an edge's time is booked on."""
        def make():
            every = self._all()
            return dict(zip(zip(every.begin.tolist(), every.end.tolist()), every.event.tolist()))
        event = self._once("attribution", make).get((edge.begin, edge.end), -1)
        return None if event < 0 else event

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        every = self._all()
        return [edge for edge, event in zip(every.objects(), every.event.tolist()) if event == ev_idx]

    # ---- the path --------------------------------------------------------------------------------------------------------------

    @property
    def critical_path_nodes(self) -> list[int]:
        path = self._path()
        return [*path.begin[:1].tolist(), *path.end.tolist()]

    @property
    def critical_path_edges_set(self) -> set[CPEdge]:
        return set(self._path().objects())

    @property
    def critical_path_events_set(self) -> set[int]:
        return {node // 2 for node in self.critical_path_nodes}

    @property
    def node_list(self) -> list[CPNode]:
        """The nodes of the path, with their times (µs, as in the file)."""
        path = self._path()
        if len(path) == 0:
            return []
        times = [*(path.start / 1000).tolist(), float(path.start[-1] / 1000 + path.weight[-1])]
        return [CPNode(node, node // 2, ts, node % 2 == 0) for node, ts in zip(self.critical_path_nodes, times)]

    def get_critical_path_breakdown(self) -> Any:
        """A row an edge of the path: how long (µs), which kind, the event it is booked on, and what bounds it."""
        import numpy
        from ..utils.utils import shorten_name
        if not self.found:
            return _frames.empty(BREAKDOWN)
        table, path = self._path_table(), self._path()
        booked = path.event >= 0
        numbers, names = _frames.codes(table, "name")
        short = numpy.array([shorten_name(name) if name else "" for name in names] or [""], dtype=object)[numbers]
        places = self.trace.places(self.rank, numpy.maximum(_frames.integers(table, "track"), 0))
        codes, categories = _frames.codes(table, "category")
        symbols = self.trace.symbol_table.numbers_of(categories)[codes]

        def where_booked(values: Any) -> Any:
            return numpy.where(booked, values, numpy.nan)
        pid, tid = (numpy.where(booked, places[c].astype(object), None) for c in ("pid", "tid"))
        types = numpy.array([KINDS[kind].value for kind in path.kind], dtype=object)
        bounds = numpy.array([bound or "" for bound in _frames.texts(table, "bound_by")], dtype=object)
        return _frames.frame({"event_idx": where_booked(path.event), "duration": path.weight, "type": types, "s_name": short,
                              "cat": where_booked(symbols), "pid": pid, "tid": tid, "stream": where_booked(_frames.integers(table, "stream")),
                              "index": where_booked(path.event), "bound_by": bounds})

    def summary(self) -> Any:
        """The share of the path (%) that each bound has; printed, too."""
        frame = self.get_critical_path_breakdown()
        shares = frame.groupby("bound_by")["duration"].sum() * 100 / frame["duration"].sum()
        print("Critical path broken down by what bounds it (% of its duration):")
        print(shares.to_string())
        return shares

    def show_critical_path(self) -> None:
        for node in self.node_list:
            print(f"{node.ts:.3f} {'start' if node.is_start else 'end'} of event {node.ev_idx}")

    # ---- kept in a file --------------------------------------------------------------------------------------------------------

    def save(self, out_dir: str) -> str:
        """What the graph was asked for, as a small file: restore_cpgraph asks again, which takes no time worth saving."""
        path = f"{out_dir.rstrip('/')}.zip"
        with zipfile.ZipFile(path, "w") as kept:
            kept.writestr("question.json", json.dumps({"rank": self.rank, **self.question}))
        return path


def restore_cpgraph(zip_filename: str, t_full: Trace, rank: int) -> CPGraph:
    with zipfile.ZipFile(zip_filename) as kept:
        question = json.loads(kept.read("question.json"))
    question.pop("rank")
    return CPGraph(t_full, rank, question)


def ask(t: Trace, rank: int, annotation: str, instance: Union[int, tuple[int, int], None], data_load_events: Optional[list[str]]) -> CPGraph:
    first, last = instance if isinstance(instance, tuple) else (instance or 0, instance or 0)
    question: dict[str, Any] = {"annotation": annotation, "instance": str(first) if first == last else f"{first}:{last}"}
    if data_load_events:
        question["data_load_events"] = ",".join(data_load_events)
    if os.environ.get("CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE") == "1":
        question["launch_edges"] = 1
    return CPGraph(t, rank, question)


# ---- drawn into the trace ---------------------------------------------------------------------------------------------------------------

def overlay(graph: CPGraph, path: str, only_show_critical_events: bool, show_all_edges: bool) -> str:
    """args.critical on the events of the path, and arrows for its edges; all edges need all events."""
    what = "all" if show_all_edges else "only" if only_show_critical_events else "path"
    return packed_export(graph.trace, graph.rank, path, critical=what, rules=graph.trace.rules, **graph.question)
