"""Which lines of the program the kernels of Inductor do the work of, as Inductor itself says: its provenance, which is
among torch's own metrics of a compilation where the program runs with INDUCTOR_PROVENANCE=1. The variable is part of
the key of Inductor's cache, so it is never set here. For the modules see kernel_modules.py."""

from __future__ import annotations

import json
import os
import re
import site
import sys
from collections.abc import Iterable
from typing import Any

from .kernel_modules import USES, Modules, modules_of_graphs

MEMBER_BYTES, STACK_BYTES, MODULE_BYTES = 240 << 10, 120 << 10, 120 << 10
KERNELS = 20000
FRAMES = 6  # of one stack, the innermost
Graph = tuple[tuple[str, tuple[int, ...]], ...]  # (name:number, numbers of stacks) of its kernels
FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\n]+)')


class KernelLines:
    def __init__(self) -> None:
        self.stacks: dict[str, int] = {}
        self.graphs: list[tuple[str, Graph, str]] = []  # with Inductor's text
        self.kernels = self.lost = self.stack_bytes = 0

    def add(self, compile_id: Any, texts: Iterable[str] | None) -> None:
        """Of one row of dynamo's metrics; with a warm cache that of the forward pass has both passes."""
        folders = _folders() if texts else []
        for text in texts or ():
            kernels = json.loads(text)
            self.kernels += len(kernels)
            if self.kernels > KERNELS:
                self.lost += len(kernels)
                continue
            graph = tuple((name, self._numbers(stacks, folders)) for name, stacks in kernels.items())
            self.graphs.append((str(compile_id), graph, text))

    def _numbers(self, stacks: list[str], folders: list[str]) -> tuple[int, ...]:
        numbers = (self._number(stack) for stack in (_short(text, folders) for text in stacks) if stack)
        return tuple(dict.fromkeys(n for n in numbers if n is not None))

    def _number(self, stack: str) -> int | None:
        if stack not in self.stacks:
            size = len(_json(stack)) + 1
            if self.stack_bytes + size > STACK_BYTES:
                return None
            self.stack_bytes += size
        return self.stacks.setdefault(stack, len(self.stacks))

    def member(self) -> dict[str, str]:
        if not self.graphs:
            return {}
        known = {graph for _, graph, _ in self.graphs}
        lost, size, texts = self.lost, self.stack_bytes, []
        for compile_id, graph, _ in self.graphs:
            own = _own(graph, known)
            text = f"{_json(compile_id)}:{_json(dict(own))}"
            size += len(text) + 1
            if size > MEMBER_BYTES:
                size, lost = size - len(text) - 1, lost + len(own)
            else:
                texts.append(text)
        stacks = _json(list(self.stacks))
        kernels = f'"lost":{lost},"stacks":{stacks},"kernels":{{{",".join(texts)}}}'
        return {f"compiled.{os.getpid()}": f"{{{kernels}{self._modules(known)}}}"}

    def _modules(self, known: set[Graph]) -> str:
        """Members behind the others: paths, and for each graph the numbers of those of its kernels."""
        try:
            found = modules_of_graphs()
        except Exception:
            return ""  # what is searched is torch's, and may be of another kind tomorrow
        paths: dict[str, int] = {}
        texts, size = [], 0
        for compile_id, graph, text in self.graphs:
            modules, before = found.get(text, Modules(False, {})), len(paths)
            names = [(name, modules.of.get(name)) for name, _ in _own(graph, known)]
            of = {name: [paths.setdefault(path, len(paths)) for path in own] for name, own in names if own}
            member = f"{_json(compile_id + ' backward' * modules.is_backward)}:{_json(of)}"
            new = list(paths)[before:]
            size += len(member) + sum(len(_json(path)) + 1 for path in new)
            if size <= MODULE_BYTES and of:
                texts.append(member)
                continue
            for path in new:
                del paths[path]
        return f',"paths":{_json(list(paths))},"modules":{{{",".join(texts)}}}' if texts else ""


def _own(graph: Graph, known: set[Graph]) -> Graph:
    """Inductor does not forget the kernels of a backward pass when it comes to the next one."""
    lengths = sorted({len(other) for other in known if 0 < len(other) < len(graph)}, reverse=True)
    return graph[next((n for n in lengths if graph[:n] in known), 0) :]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _short(stack: str, folders: list[str]) -> str:
    """Without code, and with paths as recorded frames have them."""
    frames = FRAME.findall(stack.partition(USES)[0])[-FRAMES:]
    return "\n".join(f'File "{_path(file, folders)}", line {line}, in {function}' for file, line, function in frames)


def _folders() -> list[str]:
    """Folders that src/capture/python_stack.c and torch's tracer cut off the front of a path, inner before outer."""
    torch = sys.modules.get("torch")
    own = [os.path.dirname(os.path.dirname(torch.__file__))] if torch is not None and torch.__file__ else []
    folders = [*site.getsitepackages(), *sys.path, site.getuserbase(), site.getusersitepackages(), *own]
    return sorted({os.path.abspath(p) + os.sep for p in folders if isinstance(p, str)}, reverse=True)


def _path(file: str, folders: list[str]) -> str:
    return next((file[len(folder) :] for folder in folders if file.startswith(folder)), file)
