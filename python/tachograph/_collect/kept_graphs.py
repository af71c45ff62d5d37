"""Nodes of CUDA graphs that are captured while nothing is recorded: which operator, module and line each comes from is
kept, so that a recording that begins later names the kernels of such a graph. The recorder's C side keeps them, called
by CUPTI (src/capture/kept.h); here is when a graph is captured, and which modules live."""

from __future__ import annotations

import functools
import gc
import os
import sys
import weakref
from typing import Any

from .. import _record
from .._imports import Watch, when_imported
from .._say import warn, warn_once
from .config import budget_bytes

__all__ = ["keep_graphs"]
_GRAPHS = "torch.cuda.graphs"

_most = 0  # bytes; 0 = nothing is kept
_methods: dict[str, Any] = {}  # torch's own, of the class CUDAGraph
_watch: Watch | None = None
_captured: set[int] = set()  # ids of the graphs that are being captured
_seen: dict[int, Any] = {}  # number of a module: a weak reference to it


def keep_graphs(budget: float | str = "64M") -> None:
    """Keep from now on, in `budget` of memory at most, which operator, module and line each node of a CUDA graph was
    captured from; a recording that begins later then names the kernels of that graph. 0: keep no more and forget.

    What is kept of a graph is forgotten when the graph is destroyed. Nodes without room are counted, and the recording
    says how many. CUPTI's one subscriber is ours from the first capture on."""
    global _most
    _most = 0 if budget in (0, "0") else budget_bytes("budget", budget)
    if _most:
        _watch_graphs()
    else:
        _leave()


def from_environment(text: str) -> None:
    """TACHOGRAPH_GRAPHS: "1", or the most memory, such as 16M. A variable never ends a program: what is wrong is a
    warning."""
    try:
        keep_graphs("64M" if text == "1" else text)
    except ValueError as error:
        warn(f"TACHOGRAPH_GRAPHS={text!r}: nodes of CUDA graphs are not kept: {error}")


def kept() -> dict[str, Any] | None:
    """What is kept, for the recording; None where nothing is."""
    return _record.graphs_kept() if _most else None


def warn_of_loss() -> None:
    lost = _record.graphs_kept()["lost"] if _most else 0
    if lost:
        warn_once(
            f"{lost} nodes of CUDA graphs had no room: their kernels have no operator and no line; "
            "raise the budget of keep_graphs() or TACHOGRAPH_GRAPHS"
        )


# ---- torch.cuda.CUDAGraph ------------------------------------------------------------------------------------


def _watch_graphs() -> None:
    global _watch
    if not _methods and _watch is None:
        _watch = when_imported(_GRAPHS, _enter)


def _enter() -> None:
    global _watch
    _watch = None
    graph: Any = sys.modules[_GRAPHS].CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    _methods.update(capture_begin=begin, capture_end=end)

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_kept = _begin(self)
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            if is_kept:
                _end(self)
            raise

    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return end(self, *args, **kwargs)
        finally:
            if id(self) in _captured:
                _end(self)

    graph.capture_begin, graph.capture_end = capture_begin, capture_end


def _leave() -> None:
    global _watch
    if _watch is not None:
        _watch.cancel()
        _watch = None
    if _methods:
        graph: Any = sys.modules[_GRAPHS].CUDAGraph
        for name, method in _methods.items():
            setattr(graph, name, method)
        _methods.clear()
    while _captured:
        _captured.pop()
        _record.graphs_follow(False)
    _record.graphs_keep(0)
    _seen.clear()


def _begin(graph: Any) -> bool:
    """CUDA is initialised by now, so that asking for CUPTI initialises nothing of the program's."""
    why = _record.graphs_keep(_most) if _most else ""
    if why:
        warn_once(f"nodes of CUDA graphs are not kept: {why}")
    if not _most or why or id(graph) in _captured or not _record.graphs_follow(True):
        return False
    _captured.add(id(graph))
    return True


def _end(graph: Any) -> None:
    _captured.discard(id(graph))
    _record.graphs_follow(False)
    wanted = {address: (number, kind) for number, address, kind in _record.graphs_modules()}
    for found in gc.get_objects() if wanted else ():
        number, kind = wanted.get(id(found), (0, 0))
        if number and id(type(found)) == kind:
            _record.graphs_module(number, id(found), True)
            _seen[number] = weakref.ref(found, functools.partial(_gone, number, id(found)))


def _gone(number: int, address: int, _: Any) -> None:
    _record.graphs_module(number, address, False)


os.register_at_fork(after_in_child=_captured.clear)
