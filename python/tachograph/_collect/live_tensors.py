"""Models and optimizers that are there now, and the memory their tensors take: what a recording cannot know of
itself."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .._say import log

# Of tensors that share their memory the first kind counts; gradients before parameters, as torch ranks them.
KINDS = ("gradient", "parameter", "optimizer_state", "buffer", "input")
_DEVICES = {
    "cpu": 0,
    "cuda": 1,
    "xpu": 12,
    "mps": 13,
    "hpu": 15,
    "mtia": 19,
    "privateuseone": 20,
}  # as torch numbers them


class Held(NamedTuple):
    """What a piece of memory holds."""

    kind: str
    name: str
    device: tuple[str, int]
    address: int
    nbytes: int


class _Found(NamedTuple):
    modules: list[Any]
    optimizers: list[Any]
    tensors: list[Any]  # plain ones


def _family(kind: type) -> set[type]:
    """The class and all that are derived from it."""
    found, left = {kind}, [kind]
    while left:
        fresh: set[type] = set(type.__subclasses__(left.pop())) - found
        found |= fresh
        left += fresh
    return found


def _find(torch: Any) -> _Found:
    modules, optimizers = _family(torch.nn.Module), _family(torch.optim.Optimizer)
    wanted = modules | optimizers | {torch.Tensor}
    # type(): asking an object could run its code. One look at each: most are not in the processor's cache.
    found = [t for t in gc.get_objects() if type(t) in wanted]
    return _Found(
        [t for t in found if type(t) in modules],
        [t for t in found if type(t) in optimizers],
        [t for t in found if type(t) is torch.Tensor],
    )


def _paths(modules: list[Any]) -> Iterator[tuple[str, Any]]:
    """(path, module) from the models down, each module once."""
    inner = {id(child) for m in modules for child in vars(m).get("_modules", {}).values()}
    open_ones = [("", m) for m in reversed(modules) if id(m) not in inner]
    seen: set[int] = set()
    while open_ones:
        path, module = open_ones.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        open_ones += [(f"{path}{name}.", child) for name, child in reversed(vars(module).get("_modules", {}).items())]


def _states(optimizer: Any, names: dict[int, str]) -> Iterator[tuple[str, str, Any]]:
    for parameter, state in list(getattr(optimizer, "state", {}).items()):
        if isinstance(state, dict):
            yield from (
                ("optimizer_state", f"{names.get(id(parameter), '')}.{key}".lstrip("."), t) for key, t in state.items()
            )


def _tensors(torch: Any, inputs: bool) -> Iterator[tuple[str, str, Any]]:
    """(kind, name, tensor), the kinds in their order."""
    found = _find(torch)
    parameters: dict[int, tuple[str, Any]] = {}
    buffers: list[tuple[str, Any]] = []
    for path, module in _paths(found.modules):
        for name, parameter in vars(module).get("_parameters", {}).items():
            if parameter is not None:
                parameters.setdefault(id(parameter), (path + name, parameter))
        buffers += [(path + name, b) for name, b in vars(module).get("_buffers", {}).items() if b is not None]
    for optimizer in found.optimizers:
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group.get("params", ()):
                parameters.setdefault(id(parameter), ("", parameter))
    yield from (("gradient", name, p.grad) for name, p in parameters.values() if p.grad is not None)
    yield from (("parameter", name, p) for name, p in parameters.values())
    names = {number: name for number, (name, _) in parameters.items()}
    for optimizer in found.optimizers:
        yield from _states(optimizer, names)
    yield from (("buffer", name, b) for name, b in buffers)
    if inputs:
        yield from (
            ("gradient" if which else "input", _described(t), t)
            for t in found.tensors
            if t.is_leaf
            for which, t in ((0, t), (1, t.grad))
            if t is not None
        )


def _described(tensor: Any) -> str:
    return (
        f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        if tensor.layout is sys.modules["torch"].strided
        else ""
    )


def held(inputs: bool = False) -> Iterator[Held]:
    """Each piece of memory once. inputs: also tensors that belong to no model and were computed from nothing, as data
    are."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "optim"):  # not imported to the end
        return
    known: set[tuple[Any, int]] = set()
    with torch._C.DisableTorchFunctionSubclass():
        for kind, name, tensor in _tensors(torch, inputs):
            try:
                storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
                device, address, nbytes = (
                    (storage.device.type, storage.device.index or 0),
                    storage.data_ptr(),
                    storage.nbytes(),
                )
            except (
                RuntimeError,
                NotImplementedError,
                AttributeError,
            ):  # no tensor; or one without storage: meta, sparse, of a subclass
                continue
            if address and nbytes and (device, address) not in known:
                known.add((device, address))
                yield Held(kind, name, device, address, nbytes)


def record_tensors(write: Callable[..., None], inputs: bool = False) -> int:
    """Record the tensors in memory; return the number of records. At the end again, all of them: those recorded at the
    beginning may have given way to newer records."""
    written = 0
    try:
        for written, tensor in enumerate(held(inputs), 1):  # noqa: B007  the result
            write(
                tensor.kind,
                tensor.name,
                tensor.address,
                tensor.nbytes,
                _DEVICES.get(tensor.device[0], 20),
                tensor.device[1],
            )
    except Exception as e:  # whatever a model of the program does when it is looked at: the program goes on
        log.debug("tensors are recorded without names: %r", e)
    return written


class LiveTensors:
    """Parameters, gradients and so on by device and address."""

    def __init__(self, found: Iterable[Held] | None = None) -> None:
        self._held = {(h.device, h.address): h for h in (held() if found is None else found)}

    def __bool__(self) -> bool:
        return bool(self._held)

    def kind_of(self, device: tuple[str, int], address: int | None, nbytes: int) -> str | None:
        """What a block that was never given back holds; the tensor must fit into it."""
        found = self._held.get((device, address)) if address is not None else None
        return found.kind if found is not None and found.nbytes <= nbytes else None

    def before(self, seen: set[tuple[tuple[str, int], int | None]]) -> Iterator[Held]:
        """The tensors with memory that the recording saw neither allocated nor freed."""
        yield from (h for place, h in self._held.items() if place not in seen)
