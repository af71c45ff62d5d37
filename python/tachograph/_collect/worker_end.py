"""Forked workers of multiprocessing, a DataLoader's among them, leave by os._exit and so past atexit. multiprocessing
has a list of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def at_worker_end(owner: Any, end: Callable[[Any], None]) -> bool:
    """Call end(owner) last of all in every worker that is forked from now on, as long as the owner lives. False:
    nothing can fork workers yet."""
    util = sys.modules.get("multiprocessing.util")
    if util is None or not hasattr(util, "Finalize"):  # not imported to the end
        return False
    # A worker empties the list it inherited; what is called after that puts us on it again.
    util.register_after_fork(owner, lambda owner: util.Finalize(None, end, args=(owner,), exitpriority=-100))
    return True
