"""Our classes in the place of torch.profiler's names, for programs and libraries that construct torch's profiler
themselves (TACHOGRAPH_REPLACE=1)."""

from __future__ import annotations

import sys

from . import profiler as ours


def replace() -> None:
    """Set every public name of torch.profiler, and _KinetoProfile, to ours, in both modules that have it. torch's own
    classes stay where ours need them: _torch_own.py took them before. torch.autograd.profiler stays as it is, because
    torch's own collector is built on it."""
    for name in ("torch.profiler", "torch.profiler.profiler"):
        module = sys.modules[name]
        for attribute in (*ours.__all__, "_KinetoProfile"):
            if hasattr(module, attribute):
                setattr(module, attribute, getattr(ours, attribute))


def is_replaced() -> bool:
    """Whether torch.profiler's names are ours in this process; torch has been imported."""
    return getattr(sys.modules.get("torch.profiler"), "profile", None) is ours.profile
