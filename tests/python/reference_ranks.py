"""Collectives over many ranks, slowly and plainly: what docs/metrics.md says about them, on the content a test made up.

A run is a list of ranks; a rank is a dict with number, base (ns that its file says to add), steps [(number, start, end)] and
collectives [dict(kind, group, seq, bytes, call, start, end)] in the order they were asked for, all in the rank's own time."""
import collections
import statistics

TOGETHER = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"}
EVEN = {"all_reduce", "broadcast", "reduce"}


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
        numbered = all(c["seq"] is not None for cs in by_rank.values() for c in cs)
        uneven = len({len(cs) for cs in by_rank.values()}) > 1
        for i in sorted(by_rank):
            seen = collections.Counter()
            for c in by_rank[i]:
                step = step_of(run[i], c) if uneven else None
                key = ("seq", c["seq"]) if numbered else (step, seen[step])
                seen[step] += 1
                matches[family + key].append((i, c))
    return matches


def shared(parts):
    known = {c["bytes"] for _, c in parts if c["bytes"] is not None}
    return len(parts) > 1 and not (parts[0][1]["kind"] in EVEN and len(known) > 1)


def clocks(run, matches):
    """{rank index: (offset, low, high, collectives)}: every rank against one whose clock is known already, from the first on."""
    first = min((i for i, r in enumerate(run) if r["collectives"]), default=None)
    known = {first: (0, None, None, 0)} if first is not None else {}

    def at(i, ns):
        return ns + run[i]["base"] - known[i][0]
    while True:
        samples = collections.defaultdict(list)
        for parts in matches.values():
            anchors = [p for p in parts if p[0] in known]
            if not anchors or not shared(parts) or parts[0][1]["kind"] not in TOGETHER:
                continue
            a, theirs = anchors[0]
            for i, c in parts:
                if i not in known:
                    start, end = c["start"] + run[i]["base"], c["end"] + run[i]["base"]
                    samples[i].append((end - at(a, theirs["end"]), start - at(a, theirs["end"]), end - at(a, theirs["start"])))
        if not samples:
            return known
        found = {}
        for i, s in samples.items():
            offset, low, high = low_median([x[0] for x in s]), max(x[1] for x in s), min(x[2] for x in s)
            if low <= high:
                offset = min(max(offset, low), high)
            found[i] = (offset, low, high, len(s))
        known.update(found)


def parts(run):
    """One dict for each part of each collective, times on the common clock."""
    matches = match(run)
    known = clocks(run, matches)
    out = []
    for key, members in matches.items():
        placed = []
        for i, c in members:
            start = c["start"] + run[i]["base"] - (known[i][0] if i in known else 0)
            placed.append((i, c, start, start + c["end"] - c["start"]))
        came = max(p[2] for p in placed)
        last = next(p[0] for p in placed if p[2] == came)
        others = [p[2] for p in placed if p[0] != last]
        for i, c, start, end in placed:
            wait = min(came, end) - start
            out.append({"key": key, "rank": run[i]["number"], "kind": c["kind"], "group": c["group"], "start": start, "skew": came - min(p[2] for p in placed),
                        "bytes": c["bytes"], "total": end - start, "shared": shared(members), "wait": wait, "transfer": end - start - wait,
                        "last": run[last]["number"], "is_last": i == last, "step": step_of(run[i], c),
                        "late": came - low_median(others) if i == last and others else 0})
    return out


# ---- where a step goes ------------------------------------------------------------------------------------------------------------

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
    """{share: ns} of [start, end), each instant counted for the first that is going on, and the whole of the communication."""
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
