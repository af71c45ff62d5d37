"""Collectives over many ranks, slowly and plainly: what docs/metrics.md says about them, on the content a test made up.

A run is a list of ranks; a rank is a dict with number, base (ns that its file says to add), steps [(number, start,
end)] and collectives [dict(kind, group, seq, bytes, call, start, end)] in the order they were asked for, all in the
rank's own time."""

import collections
import math
import statistics

TOGETHER = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"}
EVEN = {"all_reduce", "broadcast", "reduce", "send_recv"}


def low_median(values):
    return statistics.median_low(values)


def step_of(rank, c):
    for number, start, end in rank["steps"]:
        if start <= c["call"] < end:
            return number
    return None


def match(run):
    """{key: [(rank index, collective)]}: the same collective has the same key."""
    families = collections.defaultdict(lambda: collections.defaultdict(list))
    for i, rank in enumerate(run):
        for c in rank["collectives"]:
            families[c["group"], c["kind"]][i].append(c)
    matches = collections.defaultdict(list)
    for family, by_rank in families.items():
        transfer = family[1] == "send_recv"  # each rank numbers its own
        numbered = not transfer and all(c["seq"] is not None for cs in by_rank.values() for c in cs)
        uneven = len({len(cs) for cs in by_rank.values()}) > 1
        for i in sorted(by_rank):
            seen = collections.Counter()
            for c in by_rank[i]:
                step = None if numbered or not uneven else step_of(run[i], c)
                before = ("seq", c["seq"]) if numbered else step
                key = (before, seen[before])
                if transfer and "->" not in family[0]:
                    key = (i, len(seen), seen[before])  # its ends are unknown
                seen[before] += 1
                matches[family + key].append((i, c))
    return matches


def shared(parts):
    known, kind = {c["bytes"] for _, c in parts if c["bytes"] is not None}, parts[0][1]["kind"]
    return len(parts) > 1 and not (kind in EVEN and len(known) > 1) and not (kind == "send_recv" and len(parts) > 2)


def half_away(x):
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def drift_of(samples, offset):
    """(offset, gain, origin) of samples [(at, ahead)] by time; gain 0 where no drift is taken."""

    def spread(values, middle):
        return low_median([abs(v - middle) for v in values])

    at, ahead = zip(*sorted(samples, key=lambda x: x[0]))
    third = len(at) // 3
    if len(at) < 16 or at[-1] - at[0] < 10**9:
        return offset, 0, 0
    length = at[-1 - third // 2] - at[third // 2]
    slope = (low_median(ahead[-third:]) - low_median(ahead[:third])) / length if length > 0 else 0
    left = [a - half_away(slope * (t - at[0])) for t, a in zip(at, ahead)]
    if abs(slope) > 1e-3 or 2 * spread(left, low_median(left)) > spread(ahead, offset):
        return offset, 0, 0
    return low_median(left), slope, at[0]


class Clock:
    """offset, low, high and collectives of a rank's clock, and how to bring its times onto the common one."""

    def __init__(self, samples=None):
        self.offset, self.low, self.high, self.count, self.gain, self.origin = 0, None, None, 0, 0, 0
        if samples:
            self.count = len(samples)
            self.offset, self.gain, self.origin = drift_of(
                [(x[3], x[0]) for x in samples], low_median([x[0] for x in samples])
            )
            gained = [half_away(self.gain * (x[3] - self.origin)) if self.gain else 0 for x in samples]
            self.low, self.high = (
                max(x[1] - g for x, g in zip(samples, gained)),
                min(x[2] - g for x, g in zip(samples, gained)),
            )
            if self.low <= self.high:
                self.offset = min(max(self.offset, self.low), self.high)

    def common(self, ns):
        aligned = ns - self.offset
        return aligned - half_away(self.gain * (aligned - self.origin)) if self.gain else aligned


def clocks(run, matches):
    """{rank index: Clock}: every rank against one whose clock is known already; where none is left that meets one of
    these, from the next one on."""
    together = [p for p in matches.values() if shared(p) and p[0][1]["kind"] in TOGETHER]
    known = {}
    while True:
        samples = collections.defaultdict(list)
        for parts in together:
            anchors = [p for p in parts if p[0] in known]
            if not anchors:
                continue
            a, theirs = anchors[0]
            begin, done = (known[a].common(theirs[k] + run[a]["base"]) for k in ("start", "end"))
            for i, c in parts:
                if i not in known:
                    start, end = c["start"] + run[i]["base"], c["end"] + run[i]["base"]
                    samples[i].append((end - done, start - done, end - begin, done))
        known.update({i: Clock(s) for i, s in samples.items()})
        if not samples:
            first = min((p[0][0] for p in together if p[0][0] not in known), default=None)
            if first is None:
                return known
            known[first] = Clock()


def parts(run):
    """One dict for each part of each collective, times on the common clock."""
    matches = match(run)
    known = clocks(run, matches)
    out = []
    for key, members in matches.items():
        placed = []
        for i, c in members:
            start = known.get(i, Clock()).common(c["start"] + run[i]["base"])
            placed.append((i, c, start, start + c["end"] - c["start"]))
        came = max(p[2] for p in placed)
        last = next(p[0] for p in placed if p[2] == came)
        others = [p[2] for p in placed if p[0] != last]
        for i, c, start, end in placed:
            wait = min(came, end) - start
            out.append(
                {
                    "key": key,
                    "rank": run[i]["number"],
                    "kind": c["kind"],
                    "group": c["group"],
                    "start": start,
                    "skew": came - min(p[2] for p in placed),
                    "bytes": c["bytes"],
                    "total": end - start,
                    "shared": shared(members),
                    "wait": wait,
                    "transfer": end - start - wait,
                    "last": run[last]["number"],
                    "is_last": i == last,
                    "step": step_of(run[i], c),
                    "late": came - low_median(others) if i == last and others else 0,
                    "own_start": c["start"],
                }
            )
    return out


def moments(mine, start, end):
    """{wait, transfer, late: ns} of [start, end) on the clock of one rank's file, of its parts that are shared: each
    moment counts once, for a transfer where one transfers."""
    spans = [("wait", p["own_start"], p["own_start"] + p["wait"]) for p in mine if p["shared"]]
    spans += [("transfer", p["own_start"] + p["wait"], p["own_start"] + p["total"]) for p in mine if p["shared"]]
    late = [("late", p["own_start"] - p["late"], p["own_start"]) for p in mine if p["shared"]]
    out = {"wait": 0, "transfer": 0, "late": 0}
    edges = sorted({start, end, *(e for _, a, b in spans + late for e in (a, b) if start < e < end)})
    for a, b in zip(edges, edges[1:]):
        there = {what for what, from_, to in spans if from_ <= a and to >= b}
        if there:
            out["transfer" if "transfer" in there else "wait"] += b - a
        out["late"] += (b - a) * any(from_ <= a and to >= b for _, from_, to in late)
    return out


# ---- where a step goes -------------------------------------------------------------------------------------

SHARES = ("compute", "communication", "copy", "data", "host")


def share_of(event, has_device):
    """Which share an event of a made-up trace (traces.py) counts for; None for none."""
    loader = event.name.startswith("enumerate(DataLoader)#") and event.name.endswith(".__next__")
    if event.cat == "kernel":
        return "communication" if "nccl" in event.name.lower() else "compute"
    if event.cat in ("gpu_memcpy", "gpu_memset"):
        return "copy"
    if event.cat == "user_annotation":
        return "data" if loader else None
    if event.cat == "cpu_op":
        return "data" if loader else "host" if has_device else "compute"
    return "host" if event.cat in ("cuda_runtime", "cuda_driver") else None


def shares(events, start, end):
    """{share: ns} of [start, end), each instant counted for the first that is going on, and the whole of the
    communication."""
    has_device = any(e.cat in ("kernel", "gpu_memcpy", "gpu_memset") for e in events)
    spans = [(share_of(e, has_device), e.ts, e.end) for e in events]
    spans = [(s, max(a, start), min(b, end)) for s, a, b in spans if s and a < end and b > start and a < b]
    edges = sorted({start, end, *(a for _, a, _ in spans), *(b for _, _, b in spans)})
    out = dict.fromkeys((*SHARES, "idle", "all communication"), 0)
    for a, b in zip(edges, edges[1:]):
        there = {s for s, from_, to in spans if from_ <= a and to >= b}
        out[next((s for s in SHARES if s in there), "idle")] += b - a
        out["all communication"] += (b - a) * ("communication" in there)
    return out
