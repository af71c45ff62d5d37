"""torch's own profiler, as it was when the first of ours was used: a program may put ours in its place, so that a
library takes it, and whatever goes through torch's collector must not come back to us."""

import torch.autograd.profiler as autograd_profiler
import torch.profiler as profiler
from torch.autograd.profiler import record_function
from torch.profiler.profiler import _KinetoProfile

__all__ = ["_KinetoProfile", "autograd_profiler", "profiler", "record_function"]
