"""The frame about communication hidden under computing."""

from __future__ import annotations

from typing import Any

from .. import _frames
from ..common.trace import Trace

OVERLAP = [("rank", "int64"), ("comp_comm_overlap_pctg", "float64")]


def overlap(t: Trace) -> Any:
    """NaN for a rank without communication."""
    import numpy

    rows = []
    for rank in t.get_ranks():
        table = t.ask("overlap", rank)
        share = _frames.reals(table, "overlap_pct") if table is not None and len(table) else [numpy.nan]
        rows.append((rank, round(float(share[0]), 2)))
    if not rows:
        return _frames.empty(OVERLAP)
    return _frames.frame(
        {"rank": [rank for rank, _ in rows], "comp_comm_overlap_pctg": numpy.array([share for _, share in rows])}
    )
