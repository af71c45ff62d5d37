"""The device that work runs on, and a clock for it: events of the device where it has them, else the host's monotonic
clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

TORCH_MISSING = "this needs torch, which is not installed here"


def torch_module() -> Any:
    try:
        import torch
    except ImportError as error:
        raise RuntimeError(TORCH_MISSING) from error
    return torch


def tensors_in(value: Any) -> Iterable[Any]:
    """The tensors in nested tuples, lists and dicts, first to last."""
    if hasattr(value, "is_floating_point") and hasattr(value, "shape"):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def device_of(*things: Any) -> Any | None:
    """The device of the first module with parameters or first tensor among the things; None when there is neither."""
    for thing in things:
        if hasattr(thing, "parameters") and callable(thing.parameters):
            for tensor in thing.parameters():
                return tensor.device
        for tensor in tensors_in(thing):
            return tensor.device
    return None


def resolve(device: Any, *things: Any) -> Any:
    """What was given, else where the things live, else the accelerator of this machine, else "cpu" (as a name when
    torch is not loaded)."""
    torch = sys.modules.get("torch")
    if torch is None:
        return str(device or "cpu")
    found = device if device is not None else device_of(*things)
    if found is None:
        found = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(found)


def _module_of(device: Any) -> Any:
    """torch.cuda, torch.xpu, …: None for the CPU and for a device that has no timed events."""
    kind = getattr(device, "type", str(device).split(":")[0])
    torch = sys.modules.get("torch")
    if kind == "cpu" or torch is None:
        return None
    module = getattr(torch, kind, None)
    return module if module is not None and hasattr(module, "Event") else None


class Clock:
    """Marks on one device. mark() does not wait for the device; ns_between(a, b) waits until the device has passed
    b."""

    def __init__(self, device: Any):
        self.device = device
        self._module = _module_of(device)
        self.name = "host clock" if self._module is None else f"{getattr(device, 'type', device)} events"
        self.mark: Callable[[], Any] = time.perf_counter_ns if self._module is None else self._event

    def _event(self) -> Any:
        event = self._module.Event(enable_timing=True)
        event.record()
        return event

    def ns_between(self, begin: Any, end: Any) -> int:
        if self._module is None:
            return end - begin
        end.synchronize()
        return round(begin.elapsed_time(end) * 1e6)

    def wait(self) -> None:
        """Until all work given to the device so far is done."""
        if self._module is not None:
            self._module.synchronize()
