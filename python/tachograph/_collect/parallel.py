"""How the wrappers of a model cut and order what ranks send, as they say it themselves: the buckets of
DistributedDataParallel, the gathers of FSDP. They are looked for where a recording stops; no hook is left in them."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

MIB = 1 << 20


def parallel() -> dict[str, Any] | None:
    """Settings of the wrappers that are alive, by kind. None: no wrapper is alive, or the job has one rank."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not (dist.is_initialized() or "WORLD_SIZE" in os.environ):
        return None
    found = {name: modules for name, modules in _alive().items() if modules}
    return {name: _READERS[name](modules) for name, modules in found.items()} or None


def _alive() -> dict[str, list[Any]]:
    """By kind. An object refers to its class, and that is searched for: 20 ms for 300,000 objects, in C."""
    kinds = {name: _with_subclasses(_class(*of)) for name, of in _OF.items()}
    every = [cls for classes in kinds.values() for cls in classes]
    objects = gc.get_referrers(*every) if every else []
    return {name: [x for x in objects if type(x) in classes] for name, classes in kinds.items()}


def _class(name: str, *modules: str) -> type | None:
    """From the first of these modules that is imported and has it."""
    return next(
        (vars(sys.modules[module])[name] for module in modules if name in vars(sys.modules.get(module, gc))), None
    )


def _with_subclasses(cls: type[Any] | None) -> set[type[Any]]:
    below: list[type[Any]] = type.__subclasses__(cls) if cls else []
    return {cls}.union(*map(_with_subclasses, below)) if cls else set()


def _said(look: Callable[[], Any]) -> Any:
    """What a look at torch's inside shows; None where this torch has it elsewhere."""
    try:
        return look()
    except Exception:
        return None


def _common(values: Iterable[Any]) -> Any:
    """The value of all of them, "mixed" where they differ."""
    different = list(dict.fromkeys(values))
    return different[0] if len(different) == 1 else "mixed" if different else None


# ---- DistributedDataParallel ---------------------------------------------------------------------------------


def _ddp(modules: list[Any]) -> dict[str, Any]:
    """Of the one that sends most: its reducer's caps and buckets, in the order in which they are sent."""
    logs = [(module, _said(module._get_ddp_logging_data) or {}) for module in modules]
    module, log = max(logs, key=lambda pair: pair[1].get("total_parameter_size_bytes", 0))
    rebuilt = _sizes(log.get("rebuilt_bucket_sizes"))
    said = {
        "count": len(modules),
        "bucket_cap_mb": _mib(log.get("bucket_cap_bytes", getattr(module, "bucket_bytes_cap", None))),
        "first_bucket_cap_mb": _first_cap(module),
        "bucket_cap_mb_list": [_mib(cap) for cap in getattr(module, "bucket_bytes_cap_list", ())] or None,
        "bucket_bytes": rebuilt or _sizes(log.get("bucket_sizes")),
        "is_rebuilt": bool(rebuilt),
        "comm_hook": log.get("comm_hook"),
        "find_unused_parameters": getattr(module, "find_unused_parameters", None),
        "static_graph": getattr(module, "static_graph", None),
        "gradient_as_bucket_view": getattr(module, "gradient_as_bucket_view", None),
    }
    return {name: value for name, value in said.items() if value is not None}


def _first_cap(module: Any) -> float | None:
    """torch takes a small first bucket where the program sets no cap."""
    if not getattr(module, "bucket_bytes_cap_default", False):
        return _mib(getattr(module, "bucket_bytes_cap", None))
    return _mib(_said(lambda: sys.modules["torch.distributed"]._DEFAULT_FIRST_BUCKET_BYTES))


def _mib(size: Any) -> float | None:
    return None if size is None else size // MIB if size % MIB == 0 else size / MIB


def _sizes(text: Any) -> list[int]:
    """ "1050624, 5253120" """
    words = str(text or "").split(",")
    return [int(word) for word in words] if all(word.strip().isdigit() for word in words) else []


# ---- FSDP ----------------------------------------------------------------------------------------------------


def _fsdp1(modules: list[Any]) -> dict[str, Any]:
    said = {"count": len(modules)}
    for name in ("sharding_strategy", "forward_prefetch", "backward_prefetch", "limit_all_gathers"):
        values = [getattr(module, name, None) for module in modules]
        said[name] = _common(getattr(value, "name", value) for value in values)
    return said


def _frees_after_forward(state: Any) -> bool:
    return state._fsdp_param_group.post_forward_mesh_info is not None


def _fsdp2(modules: list[Any]) -> dict[str, Any]:
    """fully_shard keeps a state beside each module. The root is left out where there are others: it stays gathered."""
    states = [state for state in (_said(module._get_fsdp_state) for module in modules) if state is not None]
    states = [state for state in states if not getattr(state, "_is_root", False)] or states
    after = [_said(functools.partial(_frees_after_forward, state)) for state in states]
    return {
        "count": len(modules),
        "reshard_after_forward": _common(value for value in after if value is not None),
        "forward_prefetch_lists": sum(bool(getattr(state, "_states_to_forward_prefetch", ())) for state in states),
        "backward_prefetch_lists": sum(bool(getattr(state, "_states_to_backward_prefetch", ())) for state in states),
    }


_READERS: dict[str, Callable[[list[Any]], dict[str, Any]]] = {"ddp": _ddp, "fsdp1": _fsdp1, "fsdp2": _fsdp2}
_OF = {  # class, and the modules that have had it from torch 2.4 on
    "ddp": ("DistributedDataParallel", "torch.nn.parallel.distributed"),
    "fsdp1": ("FullyShardedDataParallel", "torch.distributed.fsdp.fully_sharded_data_parallel"),
    "fsdp2": ("FSDPModule", "torch.distributed.fsdp", "torch.distributed._composable.fsdp"),
}
