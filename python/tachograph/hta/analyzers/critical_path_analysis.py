"""The critical path of a rank: a graph of starts and ends, the longest way through it, and what its time was spent
on."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

from .. import _frames
from .._engine import release_memory
from .._overlay import packed_export
from ..common.trace import Trace
from ._cp_views import CPEdge, CPEdgeType, CPNode, Edges, Nodes, longest

__all__ = ["CPEdge", "CPEdgeType", "CPGraph", "CPNode", "restore_cpgraph"]

KINDS = {
    "operator": CPEdgeType.OPERATOR_KERNEL,
    "dependency": CPEdgeType.DEPENDENCY,
    "launch_delay": CPEdgeType.KERNEL_LAUNCH_DELAY,
    "kernel_delay": CPEdgeType.KERNEL_KERNEL_DELAY,
    "sync_dependency": CPEdgeType.SYNC_DEPENDENCY,
}
BREAKDOWN = [
    ("event_idx", "float64"),
    ("duration", "float64"),
    ("type", "object"),
    ("s_name", "object"),
    ("cat", "float64"),
    ("pid", "object"),
    ("tid", "object"),
    ("stream", "float64"),
    ("index", "float64"),
    ("bound_by", "object"),
]


class _Edges:
    """Edges of an answer as arrays: their nodes, weights and kinds, and the event each is booked on. rows: only these,
    in this order."""

    def __init__(self, table: Any, rows: Any = None):
        import numpy

        self.table, self.rows = table, rows
        ends = [
            (_frames.integers(table, f"{side}_index"), numpy.asarray(table[f"{side}_end"]) > 0)
            for side in ("from", "to")
        ]
        self.begin, self.end = (_frames.at(2 * index + is_end, rows) for index, is_end in ends)
        self.weight = _frames.at(_frames.micros(table, "weight_ns"), rows)
        self.kind = _frames.at(_frames.texts(table, "kind"), rows)
        self.event = _frames.at(_frames.integers(table, "index"), rows)

    def __len__(self) -> int:
        return len(self.begin)

    def objects(self) -> Iterator[CPEdge]:
        for begin, end, weight, kind in zip(self.begin.tolist(), self.end.tolist(), self.weight.tolist(), self.kind):
            yield CPEdge(begin, end, weight, KINDS[kind])


class CPGraph:
    """The result of critical_path_analysis: its nodes and edges by the names networkx has for them, made when they are
    looked at. to_networkx makes a graph that networkx can work on."""

    def __init__(self, t: Trace, rank: int, question: dict[str, Any]):
        self.trace, self.rank, self.question = t, rank, question
        release_memory()  # what stands beside the graph, the largest thing that the engine makes for an answer
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

    # ---- the graph -----------------------------------------------------------------------------------------

    def number_of_nodes(self) -> int:
        return self._sizes()["graph_nodes"][0] if self.found else 0

    def number_of_edges(self) -> int:
        return self._sizes()["graph_edges"][0] if self.found else 0

    @property
    def edges(self) -> Edges:
        return self._once("edges", lambda: Edges(self.number_of_edges(), self._pairs, self.edge_objects))

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._all().begin.tolist(), self._all().end.tolist()))

    def __contains__(self, node: object) -> bool:
        return node in self._ends()

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return self.number_of_nodes()

    def _ends(self) -> dict[int, tuple[list[CPEdge], list[CPEdge]]]:
        """Of each node the edges that end there and those that begin there."""

        def make() -> Any:
            made: dict[int, tuple[list[CPEdge], list[CPEdge]]] = {}
            for edge in self.edge_objects():
                made.setdefault(edge.begin, ([], []))[1].append(edge)
                made.setdefault(edge.end, ([], []))[0].append(edge)
            return made

        return self._once("ends", make)

    def has_node(self, n: int) -> bool:
        return n in self

    def has_edge(self, u: int, v: int) -> bool:
        return (u, v) in self.edges

    def get_edge_data(self, u: int, v: int, default: Any = None) -> Any:
        """{"weight": …, "object": the CPEdge}."""
        return self.edges.get((u, v), default)

    def predecessors(self, n: int) -> Iterator[int]:
        return (edge.begin for edge in self._ends()[n][0])

    def successors(self, n: int) -> Iterator[int]:
        return (edge.end for edge in self._ends()[n][1])

    neighbors = successors

    def in_edges(self, n: int, data: bool = False) -> list[tuple]:
        return [self._edge(edge, data) for edge in self._ends()[n][0]]

    def out_edges(self, n: int, data: bool = False) -> list[tuple]:
        return [self._edge(edge, data) for edge in self._ends()[n][1]]

    def _edge(self, edge: CPEdge, data: bool) -> tuple:
        return (edge.begin, edge.end, self.edges[edge.begin, edge.end]) if data else (edge.begin, edge.end)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph of all nodes and edges, each edge with its weight and, as object, the CPEdge."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_edges_from(self.edges(data=True))
        return graph

    def edge_objects(self) -> Iterator[CPEdge]:
        return self._all().objects()

    @property
    def nodes(self) -> list[int]:
        return sorted({*self._all().begin.tolist(), *self._all().end.tolist()})

    @property
    def node_list(self) -> Nodes:
        """The nodes by number."""

        def make() -> Any:
            rows = self.trace.rows(self.rank, columns=["index", "name", "ts_us", "dur_us"])
            return Nodes(self.nodes, rows, 0 if self.trace.is_aligned else self.trace.min_ts)

        return self._once("node list", make)

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """The nodes of an event's start and end; None where it has none."""
        pair = 2 * ev_id, 2 * ev_id + 1
        start, end = (self.node_list[node] if node in self.node_list else None for node in pair)  # noqa: SIM401  no dict
        return start, end

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        return edge.begin // 2, edge.end // 2

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """The event an edge's time is booked on."""

        def make() -> Any:
            every = self._all()
            return dict(zip(zip(every.begin.tolist(), every.end.tolist()), every.event.tolist()))

        event = self._once("attribution", make).get((edge.begin, edge.end), -1)
        return None if event < 0 else event

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        every = self._all()
        return [edge for edge, event in zip(every.objects(), every.event.tolist()) if event == ev_idx]

    # ---- the path ------------------------------------------------------------------------------------------

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

    def critical_path(self) -> bool:
        """Looks for the path again, after weights in edges have been changed."""
        import numpy

        data = self.edges.data
        if data is not None:
            row_of = {pair: row for row, pair in enumerate(self._pairs())}
            rows = numpy.array([row_of[pair] for pair in longest(data)], dtype=numpy.int64)
            self._known["path"] = _Edges(self._all().table, rows)
        return self.found

    def get_critical_path_breakdown(self) -> Any:
        """A row an edge of the path: how long (µs), which kind, the event it is booked on, and what bounds it."""
        import numpy

        from ..utils.utils import shorten_name

        if not self.found:
            return _frames.empty(BREAKDOWN)
        path = self._path()
        table, rows = path.table, path.rows
        booked = path.event >= 0
        numbers, names = _frames.codes(table, "name")
        short = numpy.array([shorten_name(name) if name else "" for name in names] or [""], dtype=object)[
            _frames.at(numbers, rows)
        ]
        places = self.trace.places(self.rank, numpy.maximum(_frames.at(_frames.integers(table, "track"), rows), 0))
        codes, categories = _frames.codes(table, "category")
        symbols = self.trace.symbol_table.numbers_of(categories)[_frames.at(codes, rows)]

        def where_booked(values: Any) -> Any:
            return numpy.where(booked, values, numpy.nan)

        pid, tid = (where_booked(places[c]) for c in ("pid", "tid"))
        types = numpy.array([KINDS[kind].value for kind in path.kind], dtype=object)
        bounds = numpy.array(
            [bound or "" for bound in _frames.at(_frames.texts(table, "bound_by"), rows)], dtype=object
        )
        return _frames.frame(
            {
                "event_idx": where_booked(path.event),
                "duration": path.weight,
                "type": types,
                "s_name": short,
                "cat": where_booked(symbols),
                "pid": pid,
                "tid": tid,
                "stream": where_booked(_frames.at(_frames.integers(table, "stream"), rows)),
                "index": where_booked(path.event),
                "bound_by": bounds,
            }
        )

    def summary(self) -> Any:
        """The share of the path (%) that each bound has; printed, too."""
        frame = self.get_critical_path_breakdown()
        shares = frame.groupby("bound_by")["duration"].sum() * 100 / frame["duration"].sum()
        print("Critical path broken down by what bounds it (% of its duration):")
        print(shares.to_string())
        return shares

    def show_critical_path(self) -> None:
        for node in map(self.node_list.__getitem__, self.critical_path_nodes):
            print(f"{node.ts:.3f} {'start' if node.is_start else 'end'} of event {node.ev_idx}")

    # ---- kept in a file ------------------------------------------------------------------------------------

    def save(self, out_dir: str) -> str:
        """What the graph was asked for, as a small file: restore_cpgraph asks again, which takes no time worth
        saving."""
        path = f"{out_dir.rstrip('/')}.zip"
        with zipfile.ZipFile(path, "w") as kept:
            kept.writestr("question.json", json.dumps({"rank": self.rank, **self.question}))
        return path


def restore_cpgraph(zip_filename: str, t_full: Trace, rank: int) -> CPGraph:
    with zipfile.ZipFile(zip_filename) as kept:
        question = json.loads(kept.read("question.json"))
    question.pop("rank")
    return CPGraph(t_full, rank, question)


def ask(
    t: Trace,
    rank: int,
    annotation: str,
    instance: int | tuple[int, int] | None,
    data_load_events: list[str] | None,
) -> CPGraph:
    first, last = instance if isinstance(instance, tuple) else (instance or 0, instance or 0)
    question: dict[str, Any] = {
        "annotation": annotation,
        "instance": str(first) if first == last else f"{first}:{last}",
    }
    if data_load_events:
        question["data_load_events"] = ",".join(data_load_events)
    if os.environ.get("CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE") == "1":
        question["launch_edges"] = 1
    return CPGraph(t, rank, question)


# ---- drawn into the trace ----------------------------------------------------------------------------------


def overlay(graph: CPGraph, path: str, only_show_critical_events: bool, show_all_edges: bool) -> str:
    """args.critical on the events of the path, and arrows for its edges; all edges need all events."""
    what = "all" if show_all_edges else "only" if only_show_critical_events else "path"
    return packed_export(graph.trace, graph.rank, path, critical=what, rules=graph.trace.rules, **graph.question)
