"""Chakra execution traces, as torch's ExecutionTraceObserver writes them, and which of their nodes an event of a
profiler trace is.

    et = tg.load_execution_trace("et.json.gz")
    # {event, name, category, external_id, et_node} per operator and annotation
    rows = et.correlate(tg.open("trace.json.gz"))
    et.nodes[rows[0]["et_node"]].input_shapes

Both files count the calls of record functions: "Record function id" (of older torch: "External id") here, rf_id there.
A recording without ids (of a torch that does not show them): the calls of one thread are those of the thread that made
the same calls in the same order.
The file is foreign: it is parsed as JSON and nothing else, its size is bounded, and entries that are no nodes are
left out and counted.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from typing import IO, Any

CATEGORIES = ("cpu_op", "user_annotation")
_MARKS = ("execution_trace|thread", "execution_trace|process")  # nodes that stand for threads, not for calls
_PIECE = 1 << 20
_IDS = ["Record function id", "External id", "external id"]
_EDGE = 64  # calls that one of the two saw before the other began


class Node:
    """One node. Values and shapes are as the file has them; rf_id is None where it says none."""

    __slots__ = (
        "id",
        "name",
        "rf_id",
        "parent",
        "op_schema",
        "inputs",
        "input_shapes",
        "input_types",
        "outputs",
        "output_shapes",
        "output_types",
        "attributes",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        found = raw.get("attrs", raw.get("attr"))  # torch has written "attrs" since 2.1
        attributes = (
            {a["name"]: a.get("value") for a in found if isinstance(a, dict) and isinstance(a.get("name"), str)}
            if isinstance(found, list)
            else {}
        )

        def field(name: str, default: Any = None) -> Any:
            return raw.get(name, attributes.get(name, default))

        self.id, self.name = raw["id"], raw["name"]
        self.rf_id = field("rf_id") if _is_count(field("rf_id")) else None
        self.parent = field("parent", raw.get("ctrl_deps"))
        self.op_schema = field("op_schema", "")
        self.attributes = attributes
        for side in ("input", "output"):
            given = raw.get(side + "s")
            nested = given if isinstance(given, dict) else {}  # from schema 1.0.2 on the three lie in one object
            setattr(self, side + "s", nested.get("values", []) if nested else given or [])
            setattr(self, side + "_shapes", nested.get("shapes", []) if nested else raw.get(side + "_shapes", []))
            setattr(self, side + "_types", nested.get("types", []) if nested else raw.get(side + "_types", []))

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.name!r}, rf_id={self.rf_id})"


class ExecutionTrace:
    """nodes: by id. skipped: entries that were no node (without id or name, or an id seen before)."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise ValueError("no execution trace: its JSON is not an object with a list of nodes")
        self.schema, self.pid = document.get("schema"), document.get("pid")
        self.nodes: dict[int, Node] = {}
        self.skipped = 0
        for raw in document["nodes"]:
            if (
                isinstance(raw, dict)
                and _is_count(raw.get("id"))
                and isinstance(raw.get("name"), str)
                and raw["id"] not in self.nodes
            ):
                self.nodes[raw["id"]] = Node(raw)
            else:
                self.skipped += 1
        self._by_rf_id = {n.rf_id: n.id for n in self.nodes.values() if n.rf_id is not None}

    def node_of(self, external_id: int | None) -> int | None:
        """Id of the node that is this call; of several with its number the last."""
        return None if external_id is None else self._by_rf_id.get(external_id)

    def overlaps(self, least: int, most: int) -> bool:
        """Do the external ids of a profiler trace, from least to most, enclose the calls here? Else the two saw
        different runs."""
        ids = [
            n.rf_id for n in self.nodes.values() if n.rf_id is not None and not any(mark in n.name for mark in _MARKS)
        ]
        return bool(ids) and least <= min(ids) and most >= max(ids)

    def correlate(self, trace: Any, rank: int | None = None) -> list[dict[str, Any]]:
        """The operators and annotations of a trace, each with the id of its node, None where it has none.

        ValueError when the trace does not cover the calls of the execution trace."""
        rows = [r for r in trace.ask("events", by="slice", args=_IDS, rank=rank) if r["category"] in CATEGORIES]
        called, *external = ([_number(row[key]) or 0 for row in rows] for key in _IDS)
        numbers = [first or second for first, second in zip(*external)]
        found = self._by_number(rows, called if any(called) else numbers)
        if not found and not any(called):
            found = self._by_order(rows)
        if not found:
            ids = [n for n in (called if any(called) else numbers) if n]
            counted = f" counts calls from {min(ids)} to {max(ids)}, which" if ids else ""
            raise ValueError(
                f"the trace{counted} does not enclose the calls of the execution trace: they were not recorded together"
            )
        return [
            {
                "event": row["id"],
                "name": row["name"],
                "category": row["category"],
                "external_id": number or None,
                "et_node": found.get(row["id"]),
            }
            for row, number in zip(rows, numbers)
        ]

    def _by_number(self, rows: list[dict[str, Any]], numbers: list[int]) -> dict[int, int]:
        """Event → node of the same number and name; empty where the numbers are of another count."""
        if not any(numbers) or not self.overlaps(min(filter(None, numbers)), max(numbers)):
            return {}
        pairs = [(row, self.node_of(number)) for row, number in zip(rows, numbers) if number]
        found = {row["id"]: node for row, node in pairs if node is not None}
        same = all(self.nodes[node].name == row["name"] for row, node in pairs if node is not None)
        return found if same else {}

    def _by_order(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        """Event → node, by the calls of each thread in their order."""
        threads: dict[Any, list[Node]] = {}
        for node in sorted((n for n in self.nodes.values() if n.rf_id), key=lambda n: n.rf_id or 0):
            if not any(mark in node.name for mark in _MARKS):
                threads.setdefault(node.attributes.get("tid"), []).append(node)
        tracks: dict[int, list[dict[str, Any]]] = {}
        for row in rows:
            tracks.setdefault(row["track"], []).append(row)
        found: dict[int, int] = {}
        for nodes in threads.values():
            names = [node.name for node in nodes]
            places = [(track, at) for track in tracks.values() if (at := _overlap(names, track)) is not None]
            if len(places) == 1:  # of two threads that did the same, neither can be distinguished
                track, at = places[0]
                found.update((row["id"], node.id) for row, node in zip(track[max(-at, 0) :], nodes[max(at, 0) :]))
        return found


def load_execution_trace(path: str | os.PathLike[str], most_bytes: int = 4 << 30) -> ExecutionTrace:
    """Read an execution trace, plain or .gz (recognised by content). ValueError says what is wrong with it; most_bytes
    bounds what is unpacked."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        source: Any = gzip.GzipFile(fileobj=file) if packed else file
        text = _read_all(source, most_bytes, path)
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)}: nested too deep to be an execution trace") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON: {error}") from None
    return ExecutionTrace(document)


def _read_all(file: IO[bytes], most: int, path: Any) -> bytes:
    pieces, size = [], 0
    try:
        while piece := file.read(_PIECE):
            size += len(piece)
            if size > most:
                raise ValueError(f"{os.fspath(path)} unpacks to more than {most} bytes; most_bytes= raises the limit")
            pieces.append(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{os.fspath(path)} is cut or damaged: {error}") from None
    return b"".join(pieces)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value if _is_count(value) else None


def _overlap(names: list[str], track: list[dict[str, Any]]) -> int | None:
    """How many of names come before the track's first, where all that both have is equal; negative: how many of the
    track's come before. The nearest place is taken; None: there is none."""
    calls = [row["name"] for row in track]
    for at in sorted(range(-_EDGE, _EDGE + 1), key=abs):
        ours, theirs = calls[max(-at, 0) :], names[max(at, 0) :]
        both = min(len(ours), len(theirs))
        if both > max(len(calls), len(names)) // 2 and ours[:both] == theirs[:both]:
            return at
    return None
