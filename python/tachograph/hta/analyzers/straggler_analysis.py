"""Which ranks hold up the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tachograph

from .. import _frames
from .._engine import NO_DATA
from ..common.trace import Trace


def stragglers(t: Trace, steps: list[int] | None, candidates: int, impl: Callable[..., Any] | None) -> list[int]:
    """Ranks, the worst first. By our rules those that cost the others time, by HTA's the ones that come last most
    often."""
    if impl is not None:
        return [int(rank) for rank in impl(iterations(t, steps), t.symbol_table, candidates, False).tolist()]
    trace = t.engine.together()
    if trace is None:
        raise ValueError("stragglers are found among ranks, but two files say that they are the same rank")
    try:
        table = trace.ask(
            "stragglers", rules=t.rules, candidates=candidates, limit="all", **({"step": steps} if steps else {})
        )
    except tachograph.TachographError as error:
        if error.status == NO_DATA:
            raise ValueError(str(error)) from error
        raise
    ranks = _frames.integers(table, "rank").tolist()
    if not t.hta_compat:
        late = _frames.reals(table, "late_ns")
        ranks = [rank for rank, cost in zip(ranks, late) if cost > 0]
    return [t.engine.outer(rank) for rank in ranks[: max(candidates, 1)]]


def iterations(t: Trace, steps: list[int] | None) -> Any:
    """The rows of these steps of all ranks, with a column rank."""
    import pandas

    parts = []
    for rank in t.get_ranks():
        frame = t.get_trace(rank)
        part = frame[frame["iteration"].isin(steps if steps else t.get_iterations(rank))].copy()
        part["rank"] = rank
        parts.append(part)
    return pandas.concat(parts, ignore_index=True)
