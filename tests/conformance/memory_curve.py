"""PyTorch's raw memory timeline beside the oracle: the question memory_timeline, brought into the form of
`memory_timeline()`."""

from compare import GONE, Count, walk
from engine import Refused

# As the raw file numbers them.
CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
)


def shaped(entries, rows):
    """Of the rows of memory_timeline what the oracle says; `entries` are the events that were kept."""
    levels = [[row[c] for c in CATEGORIES] for row in rows]
    totals = [row["total"] for row in rows]
    peak = totals.index(max(totals))
    return {
        "entries": entries,
        "snapshots": len(rows),
        "peak_total": totals[peak],
        "peak_index": peak,
        "peak_by_category": levels[peak],
        "final": levels[-1],
        "max_by_category": [max(level[i] for level in levels) for i in range(len(CATEGORIES))],
    }


def compare_timeline(engine, folder, document, errors):
    """The counted values of the folder's timeline, None when the oracle has none."""
    want = ((document.get("reference") or {}).get("memory_timeline") or {}).get("result")
    files = sorted(p for p in folder.iterdir() if "memory_timeline" in p.name) if want else []
    if not files:
        return None
    count = Count()
    try:
        got = shaped(len(engine.ask(files[0], "events", by="mark")), engine.ask(files[0], "memory_timeline"))
    except Refused as refusal:
        errors.append("%s: exit %d: %s" % (files[0].name, refusal.status, refusal.text.split("\n")[0]))
        got = GONE
    walk(count, "memory_timeline", want, got)
    return count
