"""Walks a section of the oracle beside our answer in the same form and counts every value."""

import math

LABELS = {"policy", "columns"}  # they name things; they are no answers
MAPS = {
    "memory",
    "categories",
    "phases",
    "types",
    "idle",
    "queue",
    "bandwidth",
}  # keys are data: one of ours that the oracle lacks is a difference


class Absent:
    """Why there is no value of ours. A value the oracle knows to be unknown may be left out of a row, the row itself
    not."""

    def __init__(self, text):
        self.text = text


MISSING, GONE = Absent("absent"), Absent("absent with its row")


def key_of(item):
    """What identifies a row of a list of dicts; None when position does."""
    if not isinstance(item, dict) or "name" not in item:
        return None
    return (item["kernel_type"], item["name"]) if "kernel_type" in item else (item["name"],)


def close(want, got, path):
    """The rule of the oracle: integers exactly, decimals to 1e-9 or 1 ns, percentages to 0.005."""
    if want is None or got is None or isinstance(got, Absent):
        return want is None and (got is None or got is MISSING)
    if isinstance(want, (bool, str)) or isinstance(got, (bool, str)):
        return type(want) is type(got) and want == got
    if isinstance(want, int):
        return got == want
    if not math.isfinite(want):
        return got == want
    if path.endswith("pct"):
        return abs(got - want) <= 0.005
    return abs(got - want) <= max(1e-9 * abs(want), 0.001 if is_time(path) else 0.0)


TIMES = {"sum", "max", "min", "mean", "std", "dev_self", "dev_total", "host_self", "host_total"}


NO_TIMES = (".gpu.", ".queue.", ".bandwidth.")  # shares, lengths of queues, GB/s


def is_time(path):
    """Is the value at this path a time in microseconds? Then 0.001 of it is 1 ns."""
    if any(section in path for section in NO_TIMES):
        return False
    last = path.rsplit(".", 1)[-1].split("[")[0]
    last = last[4:] if last.startswith("sum_") else last
    return last.endswith("_us") or last in TIMES or last in ("costs", "average", "comp_comm_overlap_other")


class Count:
    """Values seen, values that agree, and every difference as (path, want, got)."""

    def __init__(self):
        self.total, self.agree, self.differences = 0, 0, []

    def leaf(self, path, want, got):
        self.total += 1
        if close(want, got, path):
            self.agree += 1
        else:
            self.differences.append((path, want, got))


def aligned(want, got):
    """Pairs of rows: by name where rows have names that tell them apart, else by position. Yields (label, want,
    got)."""
    keys = [key_of(w) for w in want]
    if want and None not in keys and len(set(keys)) == len(keys):
        index = {}
        for g in got:
            index.setdefault(key_of(g), []).append(g)
        for k, w in zip(keys, want):
            hits = index.get(k, [])
            yield "/".join(k), w, hits[0] if len(hits) == 1 else GONE
        return
    for i, w in enumerate(want):
        yield str(i), w, got[i] if i < len(got) else GONE


def by_time(rows):
    """Steps of the oracle stand in file order, ours in time order."""
    if rows and all(isinstance(r, dict) and "ts_us" in r for r in rows):
        return sorted(rows, key=lambda r: (r["ts_us"], r["name"]))
    return rows


def walk_map(count, path, want, got):
    there = isinstance(got, dict)
    for k, w in want.items():
        if k not in LABELS:
            walk(count, "%s.%s" % (path, k), w, got.get(k, MISSING) if there else GONE, whole=k != "top")
    if there and path.rsplit(".", 1)[-1] in MAPS:
        for k in got.keys() - want.keys():
            count.differences.append(("%s.%s" % (path, k), None, got[k]))


def walk(count, path, want, got, whole=True):
    """whole: the oracle's list is complete, so rows of ours beyond it are a difference of their own."""
    if isinstance(want, dict):
        walk_map(count, path, want, got)
    elif isinstance(want, list):
        got = got if isinstance(got, list) else []
        want, got = by_time(want), by_time(got)
        for label, w, g in aligned(want, got):
            walk(count, "%s[%s]" % (path, label), w, g)
        if whole and len(got) > len(want):
            count.differences.append((path + ".length", len(want), len(got)))
    else:
        count.leaf(path, want, got)
