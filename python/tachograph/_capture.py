"""`tachograph export --capture` comes here: TRACE CAPTURE OUT.

A tool recorded a program while it captured its CUDA graphs: the calls that launch kernels are there, in their operators
and modules, and no kernel ran. A later trace replays the graphs: the kernels are there, and nothing but one launch for
all of them. The k-th kernel of a replay is the work of the k-th launch of one capture. Three fields of the
kernel hold it, as recordings of Tachograph have them; times stay as they are."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import tachograph as tg

LAUNCH = re.compile(r"Launch\w*Kernel")  # cudaLaunchKernelExC, cuLaunchKernel, hipExtModuleLaunchKernel, …
MODULE = "nn.Module: "
FIELDS = ("captured op", "captured module", "captured stack")


@dataclass(frozen=True)
class Launch:
    """A launch that was captured. kernel: its name, where the tool says so; fields: what it becomes in the trace."""

    kernel: str | None
    fields: tuple[str | None, str | None, str | None]


class Mismatch(ValueError):
    """The two traces do not belong together; the text says why."""


def merge(trace: str, capture: str, out: str) -> int:
    """Write `trace` with what `capture` knows of its kernels. Returns how many belong to graphs."""
    captures = list(_captures(capture))
    if not captures:
        raise Mismatch(f"{capture} captures no graph: no launch of a kernel in it is without its kernel")
    document = _document(trace)
    replays = list(_replays(document["traceEvents"]))
    if not replays:
        raise Mismatch(f"{trace} replays no graph: no kernel in it belongs to the launch of one")
    of_node: dict[tuple[int, int], Launch] = {}
    known: dict[tuple[str, ...], Sequence[Launch]] = {}
    for kernels in sorted(replays, key=len, reverse=True):
        for kernel, launch in zip(kernels, _launches_of(kernels, captures, known, of_node)):
            kernel["args"].update((key, text) for key, text in zip(FIELDS, launch.fields) if text)
    _write(document, out)
    return sum(map(len, replays))


def _refuse_ranks(trace: tg.Trace, path: str) -> None:
    if len({row["rank"] for row in trace.ask("tracks")}) > 1:
        raise Mismatch(f"{path} is of several ranks: take the file of one")


# ---- the trace that replays


def _document(path: str) -> Any:
    with tempfile.TemporaryDirectory() as folder, tg.open(path) as trace:
        _refuse_ranks(trace, path)
        whole = os.path.join(folder, "whole.json")
        trace.export(whole, to="chrome", lanes="keep")
        with open(whole, encoding="utf-8") as file:
            return json.load(file)


def _replays(events: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The kernels of each launch of a graph, in the order of its nodes."""
    of_launch: dict[Any, list[dict[str, Any]]] = {
        event["args"]["correlation"]: []
        for event in events
        if "GraphLaunch" in str(event.get("name")) and "correlation" in (event.get("args") or {})
    }
    for event in events:
        if event.get("cat") == "kernel":
            of_launch.get((event.get("args") or {}).get("correlation"), []).append(event)
    for kernels in of_launch.values():
        nodes = {node for node in (kernel["args"].get("graph node id") for kernel in kernels) if isinstance(node, int)}
        by_node = len(nodes) == len(kernels) and 0 not in nodes
        kernels.sort(key=lambda kernel: kernel["args"]["graph node id"] if by_node else kernel["ts"])
        if kernels:
            yield kernels


def _write(document: Any, out: str) -> None:
    """The file appears only when it is whole."""
    draft = f"{out}.{os.getpid()}.part"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(draft, out)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


# ---- the trace of the capture


def _captures(path: str) -> Iterator[list[Launch]]:
    """The launches of each capture. Without calls that begin and end one, all are of the same."""
    with tg.open(path) as trace:
        _refuse_ranks(trace, path)
        events = cast("list[dict[str, Any]]", trace.ask("events", args="kernel").to_dicts())
    rows: dict[int, dict[str, Any]] = {row["id"]: row for row in events}
    worked = {row["cause"] for row in rows.values() if row["category"] == "kernel"}
    calls = sorted(
        (row for row in rows.values() if "_runtime" in row["category"] or "_driver" in row["category"]),
        key=lambda row: row["start_ns"],
    )
    has_edges = any("StreamBeginCapture" in row["name"] for row in calls)
    launches: list[Launch] = []
    is_open = not has_edges
    for row in calls:
        if "StreamBeginCapture" in row["name"]:
            is_open = True
        elif "StreamEndCapture" in row["name"]:
            if launches:
                yield launches
            launches, is_open = [], False
        elif is_open and LAUNCH.search(row["name"]) and row["id"] not in worked:
            launches.append(_launch(row, rows))
    if launches:
        yield launches


def _launch(call: dict[str, Any], rows: dict[int, dict[str, Any]]) -> Launch:
    around = list(_around(call, rows))
    operators = [row["name"] for row in around if row["category"] == "cpu_op"]
    frames = [row["name"] for row in around if row["category"] == "python_function"]
    modules = [name.removeprefix(MODULE) for name in frames if name.startswith(MODULE)]
    stack = [name for name in frames if not name.startswith(MODULE)]
    fields = (
        operators[0] if operators else None,
        " / ".join(reversed(modules)) or None,
        ";".join(stack) or None,
    )
    return Launch(call["kernel"], fields)


def _around(call: dict[str, Any], rows: dict[int, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The operator that made the call, and what stands around it, innermost first."""
    at = call["cause"] if call["cause"] in rows else call["parent"]
    while at in rows:
        yield rows[at]
        at = rows[at]["parent"]


# ---- which belongs to which


def _launches_of(
    kernels: list[dict[str, Any]],
    captures: list[list[Launch]],
    known: dict[tuple[str, ...], Sequence[Launch]],
    of_node: dict[tuple[int, int], Launch],
) -> Sequence[Launch]:
    """Nodes that a longer replay has named go before: the first and the last replay of a trace may be cut off."""
    nodes = [_node_of(kernel) for kernel in kernels]
    if all(node in of_node for node in nodes):
        return [of_node[node] for node in nodes if node]
    names = tuple(str(kernel.get("name")) for kernel in kernels)
    if names not in known:
        known[names] = _capture_of(names, captures)
    of_node.update((node, launch) for node, launch in zip(nodes, known[names]) if node)
    return known[names]


def _node_of(kernel: dict[str, Any]) -> tuple[int, int] | None:
    graph, node = kernel["args"].get("graph id"), kernel["args"].get("graph node id")
    return (graph, node) if graph and node and isinstance(graph, int) and isinstance(node, int) else None


def _capture_of(names: tuple[str, ...], captures: list[list[Launch]]) -> Sequence[Launch]:
    """By the number of kernels, and by their names where the capture has them."""
    of_length = [launches for launches in captures if len(launches) == len(names)]
    if not of_length:
        lengths = ", ".join(str(n) for n in sorted({len(launches) for launches in captures})[:5])
        raise Mismatch(
            f"a graph that is replayed has {len(names)} kernels, and no capture as many (they have {lengths}): it is "
            "another graph, or a capture of another batch"
        )
    fitting = [launches for launches in of_length if _first_other(names, launches) is None]
    if not fitting:
        at = _first_other(names, of_length[0]) or 0
        raise Mismatch(
            f"kernel {at + 1} of {len(names)} of a graph is {names[at]!r} where it is replayed and "
            f"{of_length[0][at].kernel!r} where it was captured: it is another graph"
        )
    if any(launches != fitting[0] for launches in fitting):
        raise Mismatch(
            f"{len(fitting)} captures have {len(names)} kernels, each from other lines or operators: which one is "
            "replayed is not known; take a capture of one batch"
        )
    return fitting[0]


def _first_other(names: tuple[str, ...], launches: Sequence[Launch]) -> int | None:
    for i, (name, launch) in enumerate(zip(names, launches)):
        if launch.kernel is not None and launch.kernel != name:
            return i
    return None


def main() -> int:
    trace, capture, out = sys.argv[1:4]
    try:
        named = merge(trace, capture, out)
    except (Mismatch, tg.TachographError) as error:
        print(f"tachograph export: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tachograph export: {error.filename or out}: {error.strerror}", file=sys.stderr)
        return 4
    print(f"{out}: {named} kernels of graphs have the operator that was captured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
