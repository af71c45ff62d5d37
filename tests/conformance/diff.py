"""Trace diff: our totals by name, by HTA's rules, against what HTA's TraceDiff gave, value by value."""

from compare import Count, walk
from engine import Refused

SIDES = ("CPU", "GPU", "ALL")
CHANGES = ("added", "deleted", "increased", "decreased", "unchanged")


def us(ns):
    """HTA counts whole microseconds; a fraction left would be a difference, so it stays."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def as_hta(rows, labels):
    """Our rows in the form of the oracle: counts, sums, and the rows it kept, by name."""
    a, b = labels
    found = {
        row["name"]: {
            "name": row["name"],
            a + "_counts": row["calls_a"],
            a + "_total_duration": us(row["total_a_ns"]),
            b + "_counts": row["calls_b"],
            b + "_total_duration": us(row["total_b_ns"]),
            "diff_counts": row["calls_delta"],
            "diff_duration": us(row["total_delta_ns"]),
            "counts_change_categories": "=+-"[(row["calls_delta"] > 0) - (row["calls_delta"] < 0)],
        }
        for row in rows
    }
    sums = {
        key: sum(row[key] for row in found.values())
        for key in (
            a + "_counts",
            b + "_counts",
            a + "_total_duration",
            b + "_total_duration",
            "diff_counts",
            "diff_duration",
        )
    }
    marks = [row["counts_change_categories"] for row in found.values()]
    return {
        "names": len(found),
        "change": {mark: marks.count(mark) for mark in set(marks)},
        "sums": sums,
        "rows": found,
    }


def compare_side(count, path, want, rows, labels):
    got = as_hta(rows, labels)
    for key in ("names", "change", "sums"):
        walk(count, "%s.%s" % (path, key), want[key], got[key])
    for row in want["rows"]:  # the largest; what is cut off is not there to compare with
        walk(count, "%s.rows[%s]" % (path, row["name"]), row, got["rows"].get(row["name"], {}))


def compare_pair(engine, folder, oracle, errors):
    """A Count of the pair's values, or None where the oracle has no trace diff."""
    want = (oracle.get("hta") or {}).get("trace_diff") or {}
    if "control" not in want:
        return None
    count = Count()
    labels = (want["control"], want["test"])
    files = [
        next(p for p in sorted(folder.iterdir()) if p.name == name or p.name.startswith(name + ".")) for name in labels
    ]
    steps = [",".join(map(str, chosen)) for chosen in want["selected"]]
    for side in SIDES:
        try:
            rows = engine.diff(*files, by="name", rules="hta", step_a=steps[0], step_b=steps[1], device=side.lower())
        except Refused as refusal:
            errors.append("%s, %s: exit %d: %s" % (folder.name, side, refusal.status, refusal.text))
            rows = []
        compare_side(count, side, want[side], rows, labels)
        changes = [row["change"] for row in rows]
        walk(count, side + "_ops_diff", want[side + "_ops_diff"], {change: changes.count(change) for change in CHANGES})
    return count
