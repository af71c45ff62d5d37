"""Which modules of the program the kernels of Inductor do the work of. Inductor names the operators behind a kernel,
and dynamo's graph has the module of each. The compiled function keeps both, also with a warm cache: they are searched
for in what is reachable from the functions that dynamo's code calls, by kind, as each version of torch has them
elsewhere."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

COMPILED, OBJECTS = "__compiled_fn_", 4000
OURS = ("torch._dynamo", "torch._functorch", "torch._inductor")
OPERATORS = {"call_function", "call_method", "call_module"}
USES = "Gradient addition node"  # in a stack; behind it stand uses of a tensor, which are no callers
ITEM = re.compile(r"\[['\"]?([^\]'\"]*)['\"]?\]")

Paths = tuple[str, ...]  # "layers.0(Block) / up(Linear)", below what was compiled; "": that itself


class Modules(NamedTuple):
    """Of the kernels of one graph."""

    is_backward: bool
    of: dict[str, Paths]


def modules_of_graphs() -> dict[str, Modules]:
    """By what Inductor wrote down of the stacks of the graph's kernels, as dynamo's metrics have it."""
    found: dict[str, Modules] = {}
    for function in _functions():
        graphs, nodes = _graphs(function)
        for graph in graphs if nodes else ():
            text = getattr(graph, "inductor_provenance_stack_traces_str", None)
            if isinstance(text, str):
                found.setdefault(text, of_graph(graph, text, nodes))
    return found


# ---- where they are


def _functions() -> Iterator[Any]:
    """They are globals of the module with the function that was compiled."""
    codes = getattr(getattr(sys.modules.get("torch._dynamo.convert_frame"), "output_codes", None), "seen", ())
    spaces = collections.deque(vars(m) for m in list(sys.modules.values()) if isinstance(m, types.ModuleType))
    names = {name: None for code in list(codes) for name in getattr(code(), "co_names", ()) if COMPILED in name}
    for name in names:
        space = next((space for space in spaces if name in space), None)
        if space is not None:
            spaces.appendleft(space)  # where the next one is likely to be
            yield space[name]


def _graphs(function: Any) -> tuple[list[Any], list[Any]]:
    """Inductor's graphs, and the nodes of dynamo's, a method of which torch keeps for convenience."""
    graph_module = sys.modules["torch.fx"].GraphModule
    graphs: list[Any] = []
    nodes: list[Any] = []
    seen: set[int] = set()
    todo = collections.deque([function])
    while todo and len(seen) < OBJECTS:
        item = todo.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if type(item).__name__ == "CompiledFxGraph":
            graphs.append(item)
        elif isinstance(item, types.MethodType) and isinstance(item.__self__, graph_module):
            nodes = nodes or list(item.__self__.graph.nodes)
        else:
            todo.extend(_inside(item))
    return graphs, nodes


def _inside(item: Any) -> list[Any]:
    if isinstance(item, types.FunctionType):
        return [*(item.__closure__ or ()), *item.__dict__.values()]
    if isinstance(item, types.CellType):
        try:
            return [item.cell_contents]
        except ValueError:
            return []
    if isinstance(item, types.MethodType):
        return [item.__self__, item.__func__]
    if isinstance(item, functools.partial):
        return [item.func]
    kind = item if isinstance(item, type) else type(item)
    if not kind.__module__.startswith(OURS) or (kind is item and "<locals>" not in kind.__qualname__):
        return []
    return list(getattr(item, "__dict__", {}).values())


# ---- what they say


def of_graph(graph: Any, text: str, nodes: Iterable[Any]) -> Modules:
    """nodes: of dynamo's graph."""
    path_of: dict[str, str] = {}
    paths_of_stack: dict[str, list[str]] = {}
    for node in nodes:
        if node.op in OPERATORS:
            path_of[node.name] = path = _path(node)
            paths_of_stack.setdefault((node.meta.get("stack_trace") or "").strip(), []).append(path)
    mapping = json.loads(getattr(graph, "inductor_provenance_mapping_str", None) or "{}")
    before, of = mapping.get("postToPre", {}), {}
    for kernel, stacks in json.loads(text).items():
        names = (name for post in mapping.get("cppCodeToPost", {}).get(kernel, ()) for name in before.get(post, ()))
        known = (paths_of_stack.get(stack.partition(USES)[0].strip(), []) for stack in stacks)
        own = [path_of[name] for name in names if name in path_of] or [
            path for paths in known for path in _distinct(paths)
        ]
        of[kernel] = tuple(dict.fromkeys(own))
    return Modules(bool(getattr(graph, "fx_kwargs", {}).get("is_backward")), of)


def _distinct(paths: list[str]) -> list[str]:
    """Of operators with one stack, which is all that is known of a backward pass. Modules of one class, as layers in a
    loop, stand for the innermost module around: it was one of them."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        classes = tuple(module[module.find("(") :] for module in path.split(" / "))
        groups.setdefault(classes, []).append(path)
    return [_common(group) for group in groups.values()]


def _common(paths: list[str]) -> str:
    split = [path.split(" / ") for path in paths]
    same = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*split))
    return " / ".join(parts[0] for parts in same)


def _path(node: Any) -> str:
    parts, around = [], "self"
    for text, kind in (node.meta.get("nn_module_stack") or {}).values():
        source = _source(text)
        if source == around:
            continue
        name = source[len(around) + 1 :] if source.startswith(around + ".") else source
        around = source
        parts.append(f"{name}({kind.__name__ if isinstance(kind, type) else str(kind).rpartition('.')[2]})")
    return " / ".join(parts)


def _source(text: str) -> str:
    """Dynamo's "L['self']._modules['layers']._modules['0']" is self.layers.0."""
    plain = ITEM.sub(r".\1", str(text).replace("._modules", "").replace("._orig_mod", ""))
    return plain[2:] if plain[:2] in ("L.", "G.") else plain
