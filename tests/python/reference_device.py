"""Slow, plain answers to the questions about devices, under both sets of rules. Input: the content of traces.py; times
in ns."""

import collections
import fractions
import math
import re

import reference
from reference import DEVICE, TYPE_OF, arg, figures, group_by, quantile, slices

TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")
STEP = re.compile(r"ProfilerStep#\d+$")
QUEUE_CALLS = ("cudaLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync")  # of those that traces.py makes
STATS_CALLS = ("cudaLaunchKernel", "cudaMemcpyAsync")

Work = collections.namedtuple("Work", "name start end device stream type order launch")
Pair = collections.namedtuple("Pair", "call_start call_end call_order start end order device stream")


# ---- the two row models ------------------------------------------------------------------------------------


class Exact:
    def __init__(self, rank):
        self.events = slices(rank.events)
        calls = {}
        for e in self.events:
            if reference.is_call(e) and arg(e, "correlation") is not None:
                calls.setdefault(arg(e, "correlation"), e)
        self.work, self.pairs = [], []
        for e in self.events:
            if e.cat not in DEVICE:
                continue
            call, place = calls.get(arg(e, "correlation")), (arg(e, "device"), arg(e, "stream"))
            self.work.append(
                Work(e.name, e.ts, e.end, *place, TYPE_OF.get(e.name, "MEMORY"), e.i, call.ts if call else None)
            )
            if call:
                self.pairs.append(Pair(call.ts, call.end, call.i, e.ts, e.end, e.i, *place))
        starts = [e.ts for e in self.events]
        self.reach = max(starts) - min(starts) if starts else 0
        self.queue_pairs = self.pairs

    def gap(self, before, row):
        return max(0, row.start - max(b.end for b in before)), max(b.end for b in before)

    shortest = 1


def hta_type(name):
    if name.startswith("nccl"):
        return "COMMUNICATION"
    return "MEMORY" if name.startswith(("Memcpy", "Memset")) else "COMPUTATION"  # only names of traces.py


class Row:
    def __init__(self, e, rounded):
        self.e, self.stream, self.corr, self.index = e, arg(e, "stream", -1), arg(e, "correlation", -1), e.i
        start, dur = (float(fractions.Fraction(ns, 1000)) for ns in (e.ts, e.dur))
        self.ts = math.ceil(start) * 1000 if rounded else e.ts
        self.end = math.floor(start + dur) * 1000 if rounded else e.end
        self.on_gpu = self.stream >= 0 and self.corr >= 0


def hta_ranks(ranks, keep_last=False):
    """HolisticTraceAnalysis' rows of each rank, from the earliest of all."""
    out = []
    for rank in ranks:
        rounded = any(e.ts is None or e.ts % 1000 for e in rank.events)
        out.append([Row(e, rounded) for e in slices(rank.events) if e.cat is not None])
    first = min((r.ts for rows in out for r in rows), default=0)
    for rows in out:
        for r in rows:
            r.ts, r.end = r.ts - first, r.end - first
            others = [o for o in rows if o.corr == r.corr != -1 and o.on_gpu != r.on_gpu]
            r.link = others[-1] if others else None
    if len({r.e.name for rows in out for r in rows if STEP.match(r.e.name)}) > 1:
        out = [without_last_step(rows, keep_last) for rows in out]
    return [Hta(rows) for rows in out]


def without_last_step(rows, keep_last):
    last = math.inf if keep_last else max((r.ts for r in rows if STEP.match(r.e.name)), default=-1)
    host = [r for r in rows if not r.on_gpu and r.ts < last]
    return [r for r in rows if r.on_gpu for h in host if h.corr == r.corr] + host


class Hta:
    def __init__(self, rows):
        self.work = []
        for r in rows:
            if r.stream == -1:
                continue
            launch = r.link if r.link is None or any(o is r.link for o in rows) else None
            if r.link is None and r.corr >= 0:  # "has no partner" is 0, and so is the index of the first event
                launch = next((o for o in rows if o.index == 0), None)
            self.work.append(
                Work(r.e.name, r.ts, r.end, None, r.stream, hta_type(r.e.name), r.index, launch.ts if launch else None)
            )
        calls = {r.corr: r for r in rows if r.e.name in QUEUE_CALLS and r.link is not None and r.link.index > 0}
        self.queue_pairs = [self.pair(calls[r.corr], r) for r in rows if r.stream != -1 and r.corr in calls]
        some = {r.corr for r in rows if r.e.name in STATS_CALLS}
        self.pairs = [
            self.pair(c, r)
            for c in rows
            if c.stream == -1 and c.corr in some
            for r in rows
            if r.stream != -1 and r.corr == c.corr
        ]
        self.reach = max(r.ts for r in rows) - min(r.ts for r in rows) if rows else 0

    @staticmethod
    def pair(call, work):
        return Pair(call.ts, call.end, call.index, work.ts, work.end, work.index, None, work.stream)

    def gap(self, before, row):
        return row.start - before[-1].end, before[-1].end

    shortest = 1000


# ---- answers -----------------------------------------------------------------------------------------------


def union(work):
    """Length of the union; what ends before it starts and touches nothing counts with that negative length."""
    total, end = 0, None
    for w in sorted(work, key=lambda w: (w.start, w.end)):
        if end is None or w.start > end:
            total, end = total + w.end - w.start, w.end
        elif w.end > end:
            total, end = total + w.end - end, w.end
    return total


def span(work):
    ordered, end = sorted(work, key=lambda w: (w.start, w.end)), None
    for w in ordered:
        end = w.end if end is None or w.start > end else max(end, w.end)
    return end - ordered[0].start


def percent(part, whole):
    return 100 * part / whole if whole else None


def of_type(m, *types):
    return [w for w in m.work if w.type in types]


def breakdown(m):
    if not m.work:
        return {}
    total, busy, compute = span(m.work), union(m.work), union(of_type(m, "COMPUTATION"))
    return {
        (): {
            "kernel_time_ns": total,
            "busy_ns": busy,
            "compute_ns": compute,
            "non_compute_ns": busy - compute,
            "idle_ns": total - busy,
            "communication_ns": union(of_type(m, "COMMUNICATION")),
            "memory_ns": union(of_type(m, "MEMORY")),
            "summed_ns": sum(w.end - w.start for w in m.work),
            "busy_pct": percent(busy, total),
            "idle_pct": percent(total - busy, total),
        }
    }


def kernel_types(m):
    """Between neighbouring edges nothing changes."""
    out, edges = collections.Counter(), sorted({p for w in m.work for p in (w.start, w.end)})
    for a, b in zip(edges, edges[1:]):
        on = [t for t in TYPES if any(w.type == t and w.start <= a and b <= w.end for w in m.work)]
        if on:
            out[" overlapping ".join(on)] += b - a
    return {k: {"total_ns": v, "pct": percent(v, sum(out.values()))} for k, v in out.items()}


def overlap(m):
    if not m.work:
        return {}
    both = sum(v["total_ns"] for k, v in kernel_types(m).items() if "COMPUTATION overlapping COMMUNICATION" in k)
    busy = union(of_type(m, "COMMUNICATION"))
    return {
        (): {
            "communication_ns": busy,
            "overlap_ns": both,
            "exposed_ns": busy - both,
            "overlap_pct": percent(both, busy),
        }
    }


def kernel_breakdown(m):
    return {
        k: {c: v for c, v in figures([w.end - w.start for w in g]).items() if c != "std_ns"}
        for k, g in group_by(m.work, lambda w: (w.type, w.name)).items()
    }


def spread(values, names):
    n = len(values)
    mean = fractions.Fraction(sum(values), n) if n else None
    std = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else None
    if not n:
        return dict.fromkeys(names)
    quarters = (quantile(values, fractions.Fraction(k, 4)) for k in (1, 2, 3))
    return dict(zip(names, (float(mean), std, float(min(values)), *quarters, float(max(values)))))


def idle(m, delay_ns):
    out = {}
    for place, row in group_by(m.work, lambda w: (w.device, w.stream)).items():
        row.sort(key=lambda w: (w.start, w.order))
        gaps = {"other": []}
        for k in range(1, len(row)):
            gap, end = m.gap(row[:k], row[k])
            late = row[k].launch is not None and row[k].launch > end
            gaps.setdefault("host_wait" if late else "kernel_wait" if gap < delay_ns else "other", []).append(gap)
        total = sum(map(sum, gaps.values()))
        for cause, v in gaps.items():
            out[place + (cause,)] = {
                "idle_ns": sum(v),
                "intervals": len(v),
                "pct": percent(sum(v), total),
                **spread(v, ("mean_ns", "std_ns", "min_ns", "p25_ns", "p50_ns", "p75_ns", "max_ns")),
            }
    return out


def queue_points(m):
    out = {}
    for place, pairs in group_by(m.queue_pairs, lambda p: (p.device, p.stream)).items():
        changes = sorted(
            [(p.call_start, -1, p.call_order, 1) for p in pairs] + [(p.start, 1, p.order, -1) for p in pairs]
        )
        out[place] = [(c[0], sum(d for *_, d in changes[: k + 1])) for k, c in enumerate(changes)]
    return out


def queue(m):
    out = {}
    for place, points in queue_points(m).items():
        lengths, reach = [n for _, n in points], points[-1][0] - points[0][0]
        area = sum((b - a) * n for (a, n), (b, _) in zip(points, points[1:]))
        out[place] = {
            "points": len(points),
            "negative": sum(n < 0 for n in lengths),
            "time_mean": area / reach if reach else None,
            **spread(lengths, ("mean", "std", "min", "p25", "p50", "p75", "max")),
        }
    return out


def queue_full(m, limit):
    out = {}
    for place, points in queue_points(m).items():
        full = sum(b - a for (a, n), (b, _) in zip(points, points[1:]) if n >= limit)
        out[place] = {"points": sum(n >= limit for _, n in points), "full_ns": full, "full_pct": percent(full, m.reach)}
    return out


def copy_bandwidth(m, rank):
    out = {}
    for kind, work in group_by(
        of_type(m, "MEMORY"), lambda w: "Memset" if w.name.startswith("Memset") else w.name[:11]
    ).items():
        rate = {
            w.order: fractions.Fraction(arg(next(e for e in rank.events if e.i == w.order), "memory bandwidth (GB/s)"))
            for w in work
        }
        ends = [(w.end if w.end != w.start else w.start + m.shortest, 0, w.order, -rate[w.order]) for w in work]
        changes = sorted(ends + [(w.start, 1, w.order, rate[w.order]) for w in work], key=lambda c: c[:3])
        running = [sum(c[3] for c in changes[: k + 1]) for k in range(len(changes))]
        busy, above = sum(w.end - w.start for w in work), [r for r in running if r > 0]
        out[kind] = {
            "copies": len(work),
            "bytes": 4096 * len(work),
            "total_ns": busy,
            "points": len(above),
            **spread(above, [c + "_gbps" for c in ("mean", "std", "min", "p25", "p50", "p75", "max")]),
        }
    return out


def launch_stats(m, call_ns, delay_ns):
    late = [max(0, p.start - p.call_end) for p in m.pairs]
    calls, device = (
        [getattr(p, b) - getattr(p, a) for p in m.pairs] for a, b in (("call_start", "call_end"), ("start", "end"))
    )
    return {
        (): {
            "launches": len(m.pairs),
            "call_ns": sum(calls),
            "device_ns": sum(device),
            "delay_ns": sum(late),
            "short_kernels": sum(c <= call_ns and d < c for c, d in zip(calls, device)),
            "call_outliers": sum(c > call_ns for c in calls),
            "delay_outliers": sum(x > delay_ns for x in late),
        }
    }
