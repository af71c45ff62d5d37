"""Members of the trace document beside the events: additions of the user, the way of recording, the numbers of the
ranks."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import platform
import sys
from typing import Any

_OURS = ("traceEvents", "schemaVersion", "baseTimeNanoseconds", "displayTimeUnit", "traceName")


def checked(key: str, json_text: Any) -> str:
    """The text of a member, if it is JSON: anything else would break the file it goes into."""
    if not isinstance(key, str) or not isinstance(json_text, str):
        raise TypeError("metadata: key and value are texts; the value is JSON, such as json.dumps(…) makes it")
    if key in _OURS:
        raise ValueError(f"metadata: {key!r} is a member of its own in every trace")
    try:
        json.loads(json_text, parse_constant=_no_constant)
    except ValueError as e:
        raise ValueError(
            f"metadata {key!r}: the value is not JSON ({e}); use add_metadata() for plain text, or json.dumps(value)"
        ) from None
    return json_text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def as_json(value: Any) -> str:
    return json.dumps(value if isinstance(value, str) else str(value))


def automatic(prof: Any) -> dict[str, str]:
    """What torch.profiler writes of itself: the options that are on, and the job."""
    names = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
    members = {name: "1" for name in names if getattr(prof, name)}
    job = prof._get_distributed_info()
    if job:
        members["distributedInfo"] = json.dumps(job, default=_plain)
    return members


threads_set_at: str | None = None  # the line that called torch.set_num_threads last, where that was watched


loader: dict[str, Any] | None = None  # what the loader that feeds the steps was made with, where it was watched


def note_loader(iterator: Any) -> None:
    """Of a loader, by its iterator: the settings that advice begins from."""
    global loader
    sampler = getattr(iterator, "_index_sampler", None)
    loader = {
        "num_workers": getattr(iterator, "_num_workers", None),
        "prefetch_factor": getattr(iterator, "_prefetch_factor", None),
        "pin_memory": getattr(iterator, "_pin_memory", None),
        "persistent_workers": getattr(iterator, "_persistent_workers", None),
        "batch_size": getattr(sampler, "batch_size", None),
    }


def _threads_from(threads: int) -> str | None:
    """What made torch take so many: that line, or a variable of the environment that says so."""
    variables = (name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if os.environ.get(name) == str(threads))
    return threads_set_at or next(variables, None)


def conditions() -> dict[str, Any]:
    """Facts about the program for a later diff: versions and threads. Empty while torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_num_interop_threads"):  # not there, or still being imported
        return {}
    usable = tuple(sorted(os.sched_getaffinity(0)))
    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "cpu_cores": len(usable),
        "physical_cores": _physical_cores(usable),
        "threads": torch.get_num_threads(),
        "threads_from": _threads_from(torch.get_num_threads()),
        "interop_threads": torch.get_num_interop_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "allocator": os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
        "loader": loader,
    }


@functools.lru_cache(maxsize=1)
def _physical_cores(cpus: tuple[int, ...]) -> int | None:
    """How many cores these CPUs are: the halves of one (SMT) count once. None where the system does not say."""
    try:
        return len(
            {
                pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
                for cpu in cpus
            }
        )
    except OSError:
        return None


def distributed_info() -> dict[str, Any] | None:
    """The job this process is a rank of, None outside of one."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    info = {"backend": dist.get_backend(), "rank": dist.get_rank(), "world_size": dist.get_world_size()}
    core = dist.distributed_c10d
    if hasattr(dist, "get_pg_count"):
        info["pg_count"] = dist.get_pg_count()
    for name in ("_get_all_pg_configs", "_get_pg_config"):  # of all groups; older torch reports the default group
        if hasattr(core, name):
            info["pg_config"] = getattr(core, name)()
            break
    if info["backend"] == "nccl":
        import torch

        info["nccl_version"] = ".".join(map(str, torch.cuda.nccl.version()))
    return info


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays, for json."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
