"""Models and optimizers that are there now, and the memory their tensors take: what a recording cannot know of itself."""
from __future__ import annotations

import gc
import sys
from typing import Any, Iterable, Iterator, Optional

KINDS = ("GRADIENT", "PARAMETER", "OPTIMIZER_STATE")  # as torch ranks them


def _objects() -> tuple[list[Any], list[Any]]:
    torch = sys.modules.get("torch")
    if torch is None:
        return [], []
    modules, optimizers = [], []
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.nn.Module):  # type(): asking the object could run its code
            modules.append(thing)
        elif issubclass(type(thing), torch.optim.Optimizer):
            optimizers.append(thing)
    return modules, optimizers


def _tensors() -> Iterator[tuple[str, Any]]:
    modules, optimizers = _objects()
    groups = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    parameters = [p for m in modules for p in m._parameters.values() if p is not None] + [p for group in groups for p in group]
    yield from (("GRADIENT", p.grad) for p in parameters if p.grad is not None)
    yield from (("PARAMETER", p) for p in parameters)
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from (("OPTIMIZER_STATE", t) for t in state.values() if hasattr(t, "untyped_storage"))


def _blocks() -> Iterator[tuple[str, tuple[str, int], int, int]]:
    for kind, tensor in _tensors():
        try:
            storage = tensor.untyped_storage()
            address, nbytes = storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError):  # without storage: meta, sparse, of a subclass
            continue
        if address and nbytes:
            yield kind, (tensor.device.type, tensor.device.index or 0), address, nbytes


class LiveTensors:
    """Parameters, gradients and optimizer state by device and address."""

    def __init__(self, found: Optional[Iterable[tuple[str, tuple[str, int], int, int]]] = None) -> None:
        self._kinds: dict[tuple[tuple[str, int], int], tuple[str, int]] = {}
        for kind, device, address, nbytes in _blocks() if found is None else found:
            known = self._kinds.get((device, address))
            if known is None or KINDS.index(kind) < KINDS.index(known[0]):
                self._kinds[device, address] = kind, nbytes

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def kind_of(self, block: Any) -> Optional[str]:
        """What a block that was never given back holds; the tensor must fit into it."""
        kind, nbytes = self._kinds.get((block.device, block.address), (None, 0))
        return kind if nbytes <= block.nbytes else None

    def before(self, blocks: Iterable[Any]) -> Iterator[tuple[tuple[str, int], str, int]]:
        """(device, kind, bytes) of the tensors whose memory the recording never saw taken or given back."""
        seen = {(block.device, block.address) for block in blocks}
        for (device, address), (kind, nbytes) in self._kinds.items():
            if (device, address) not in seen:
                yield device, kind, nbytes
