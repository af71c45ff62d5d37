"""What can be recorded with this Python and its torch, and why not; `tachograph doctor` shows it. Printed: a line for
each row, its cells (item, value, 1 = fine, advice) apart by tabs."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any

from . import _record

Row = tuple[str, str, bool, str]

NVIDIA_DRIVER, AMD_DRIVER = "/dev/nvidiactl", "/dev/kfd"  # what their kernel modules make
AMD_TOOLS = ("ROCP_TOOL_LIBRARIES", "HSA_TOOLS_LIB")  # rocprofiler-sdk and its predecessors
INTEL_TOOLS = ("XPTI_SUBSCRIBERS",)  # of the SYCL runtime


def main() -> None:
    for row in rows():
        item, value, is_fine, advice = (" ".join(str(int(c) if isinstance(c, bool) else c).split()) for c in row)
        print(item, value, is_fine, advice, sep="\t")


def rows() -> list[Row]:
    return [*_recording(), *_predictions()]


def _recording() -> list[Row]:
    try:
        import torch
    except ImportError as e:
        return [
            ("torch", f"not found ({e})", False, "only needed to record, not to read: pip install torch"),
            _recorder(None),
            ("NVTX", *_nvtx()),
        ]
    return [
        ("torch", torch.__version__, True, ""),
        _recorder(torch),
        _collector(torch),
        ("our recorder of CUDA", *_cuda(torch)),
        ("NVTX", *_nvtx()),
        *_devices(torch),
        *_replaced(),
    ]


LEDGER_MOST = 1 << 16  # bytes that diff keeps
ENTRY = re.compile(rb"[a-z0-9+-]{1,199} (\d{1,18}) (-?\d{1,18}) (\d{1,18})")  # causes, predicted, gained, step in ns


def _predictions() -> list[Row]:
    """How good predictions were here, from the ledger that diff and run --compare keep."""
    try:
        with open(os.path.join(_cache(), "tachograph", "predictions"), "rb") as file:
            lines = file.read(LEDGER_MOST).splitlines()
    except OSError:
        return []
    tried = [tuple(map(int, found.groups())) for found in map(ENTRY.fullmatch, lines) if found]
    off = sorted(abs(gained - predicted) / step for predicted, gained, step in tried if step)
    if not off:
        return []
    near = sum(o <= 0.1 for o in off)
    value = (
        f"{len(off)} tried here; {near} within 10 % of the step, off by {100 * off[len(off) // 2]:.1f} % in the median"
    )
    is_near = 2 * near >= len(off)
    return [
        (
            "predictions",
            value,
            is_near,
            "" if is_near else "hold each change against a recording before it: tachograph diff BEFORE AFTER",
        )
    ]


def _cache() -> str:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return given if os.path.isabs(given) else os.path.expanduser("~/.cache")


def _recorder(torch: Any) -> Row:
    """What opening a recording of everything says, which calibrates the hook and proves it."""
    from ._collect.native import available

    usable, reason = available()
    if not usable:
        return "our recorder", f"no: {reason}", False, "torch's own collector records instead, with more overhead"
    features = _record.DEEP if torch else _record.DEEP & ~_record.OPS
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        try:
            _record.open(os.path.join(folder, "try.tacho"), features=features)
            state = _record.state()
            _record.close()
        except _record.RecordError as e:
            return "our recorder", f"no: {e}", False, "torch's own collector records instead, with more overhead"
    if state["missing"]:
        return "our recorder", f"in part: {state['why']}", False, "the rest is recorded; a warning says so each time"
    return "our recorder", "yes, its self-test passed" if torch else "yes, for Python without torch", True, ""


def _collector(torch: Any) -> Row:
    if not torch.profiler.kineto_available():
        return "torch's collector", "no: this torch is built without Kineto", False, "work on devices is not recorded"
    return (
        "torch's collector",
        "yes, for " + ", ".join(sorted(a.name for a in torch.profiler.supported_activities())),
        True,
        "",
    )


def _replaced() -> list[Row]:
    """A row where TACHOGRAPH_REPLACE is set, or did its work."""
    from ._replace import is_replaced

    item, asked = "torch.profiler names", os.environ.get("TACHOGRAPH_REPLACE", "0") not in ("", "0")
    if is_replaced():
        return [(item, "ours in every Python process that inherits TACHOGRAPH_REPLACE", True, "")]
    if asked:
        advice = "install tachograph into site-packages, where Python reads .pth files, and start Python without -S"
        return [(item, "torch's own, although TACHOGRAPH_REPLACE is set", False, advice)]
    return []


def _nvtx() -> tuple[str, bool, str]:
    """Which tool gets the ranges and marks of NVTX: one, which the variable names."""
    from ._collect.nvtx_ranges import named_tool

    taken, is_ours = named_tool()
    if taken and not is_ours:
        return (
            f"no: NVTX_INJECTION64_PATH names {taken}",
            False,
            "that tool gets the ranges of NVTX; unset the variable, and they are recorded",
        )
    return (
        "yes, in tachograph run" if not taken else "yes, NVTX_INJECTION64_PATH names our recorder",
        True,
        f"for a program that records itself: export NVTX_INJECTION64_PATH={_record.__file__}" if not taken else "",
    )


# ---- devices -----------------------------------------------------------------------------------------------


def _devices(torch: Any) -> list[Row]:
    """A device that this machine does not have is nothing to mend; one that it has and that cannot be recorded is, and
    so is a driver that is here and that this torch does not use."""
    return [
        ("NVIDIA, AMD devices", *_gpu(torch)),
        ("Intel devices (XPU)", *_xpu(torch)),
        ("Apple devices (MPS)", *_mps(torch)),
    ]


def _holder(variables: tuple[str, ...]) -> str:
    """The other profiler that a variable brings into each program: of a device it may be the only one."""
    return ", ".join(f"{name}={os.environ[name]}" for name in variables if os.environ.get(name))


def _unused(torch: Any, driver: str, kind: str, package: str) -> tuple[str, bool, str] | None:
    """A driver is here, and torch finds no device of that kind."""
    if not os.path.exists(driver):
        return None
    return (
        f"no: the driver of {kind} is here ({driver}), and torch {torch.__version__} finds no device",
        False,
        f"install a torch for {package}; where it is one, look at the rights to {driver} and at *_VISIBLE_DEVICES",
    )


def _answer(no_device: str | None, device: str, unsupported: str | None, advice: str) -> tuple[str, bool, str]:
    if no_device:
        return f"no: {no_device}", True, ""
    return (f"no: {unsupported}", False, advice) if unsupported else (f"yes, {device}", True, "")


def _gpu(torch: Any) -> tuple[str, bool, str]:
    platform = (
        f"CUDA {torch.version.cuda}"
        if torch.version.cuda
        else f"ROCm {torch.version.hip}"
        if torch.version.hip
        else None
    )
    if not torch.cuda.is_available():
        unused = _unused(torch, NVIDIA_DRIVER, "NVIDIA", "CUDA") or _unused(torch, AMD_DRIVER, "AMD", "ROCm")
        if unused:
            return unused
    if platform is None:
        return _answer("this torch is built without CUDA and ROCm", "", None, "")
    if not torch.cuda.is_available():
        return _answer(f"built for {platform}, and no device of that kind can be used here", "", None, "")
    device = f"{platform}: {torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}"
    is_known = torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities()
    holder = _holder(AMD_TOOLS) if torch.version.hip else ""
    if holder:
        return (
            f"{device}, and another profiler comes first ({holder})",
            False,
            f"unset {holder.split('=')[0]} to record",
        )
    return _answer(
        None,
        device,
        None if is_known else "the collector of this torch has no activity for them",
        "install a torch that has Kineto with CUPTI or roctracer; times of launches are recorded",
    )


def _cuda(torch: Any) -> tuple[str, bool, str]:
    """The facts from opening a recording of CUDA: the driver, libcupti, another holder of it, and the proof."""
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        try:
            _record.open(
                os.path.join(folder, "try.tacho"), features=_record.CUDA | _record.MEMORY, required=_record.CUDA
            )
            _record.resume()  # what allocators report is found out at the start
            _record.close()
        except _record.RecordError as e:
            return f"no: {e}", not torch.cuda.is_available(), "torch's own collector records CUDA instead"
    found, memory = _record.cuda(), _record.device_memory()
    if memory:
        return (
            f"in part: {found['library']} (CUPTI {found['version']}) passed its proof; without allocations: {memory}",
            False,
            "with profile_memory=True, backend='kineto' takes torch's collector, which records them",
        )
    return (
        f"yes, {found['library']} (CUPTI {found['version']}) passed its proof",
        True,
        "it records CUDA; backend='kineto' takes torch's collector",
    )


def _xpu(torch: Any) -> tuple[str, bool, str]:
    xpu = getattr(torch, "xpu", None)
    if xpu is None or not getattr(xpu, "_is_compiled", xpu.is_available)():
        return _answer("this torch is built without XPU", "", None, "")
    if not xpu.is_available():
        return _answer("built for XPU, and no device of that kind can be used here", "", None, "")
    is_known = any(a.name == "XPU" for a in torch.profiler.supported_activities())
    holder = _holder(INTEL_TOOLS)
    if holder:
        return f"another profiler comes first ({holder})", False, f"unset {holder.split('=')[0]} to record"
    return _answer(
        None,
        f"{xpu.device_count()} × {xpu.get_device_name(0)}",
        None if is_known else "the collector of this torch has no activity for them",
        "install a torch that has Kineto with XPUPTI; times of launches are recorded",
    )


def _mps(torch: Any) -> tuple[str, bool, str]:
    if not torch.backends.mps.is_built():
        return _answer("this torch is built without MPS", "", None, "")
    if not torch.backends.mps.is_available():
        return _answer("built for MPS, and no device of that kind can be used here", "", None, "")
    return _answer(
        None,
        "",
        "torch's collector has no activity for them",
        "torch.mps.profiler.profile() marks the work for Instruments",
    )
