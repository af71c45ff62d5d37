"""Slow, plain answers to the questions, straight from the definitions (questions.def): no index, no sharing, quadratic
where that is the obvious way. Input: the content of traces.py, never a file. One rank at a time; times in ns."""

import collections
import fractions
import math

from traces import KERNELS

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
TYPE_OF = dict(KERNELS)
DDP = ("DataParallel.forward", "DistributedDataParallel.forward")


# ---- small things ------------------------------------------------------------------------------------------


def slices(events):
    return [e for e in events if e.ph == "X"]


def is_call(e):
    return e.cat is not None and (e.cat == "runtime" or e.cat.endswith(("_runtime", "_driver")))


def arg(e, key, otherwise=None):
    return (e.args or {}).get(key, otherwise)


def covered(intervals):
    """Total length of a union: every stretch between neighbouring ends counts when some interval spans it."""
    points = sorted({p for ab in intervals for p in ab})
    return sum(b - a for a, b in zip(points, points[1:]) if any(s <= a and b <= t for s, t in intervals))


def figures(durations):
    n = len(durations)
    mean = fractions.Fraction(sum(durations), n)
    var = sum((d - mean) ** 2 for d in durations) / (n - 1) if n > 1 else None
    return {
        "calls": n,
        "total_ns": sum(durations),
        "min_ns": min(durations),
        "max_ns": max(durations),
        "mean_ns": float(mean),
        "std_ns": math.sqrt(var) if var is not None else None,
    }


def quantile(values, q):
    values = sorted(values)
    place = fractions.Fraction(q) * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (values[high] - values[low]) * (place - low))


def group_by(items, key):
    out = collections.OrderedDict()
    for x in items:
        out.setdefault(key(x), []).append(x)
    return out


# ---- nesting of everything on a track (events, tracks) -----------------------------------------------------


def track_of(e):
    """Identity is the literal token: 7 and "7" are different."""
    return (type(e.pid).__name__, e.pid, type(e.tid).__name__, e.tid)


def in_order(events):
    return sorted(events, key=lambda e: (e.ts, -e.dur, e.i))


def parents(track):
    """{i: parent event or None}: the innermost slice of the track that contains it entirely."""
    ordered, out = in_order(track), {}
    for k, e in enumerate(ordered):
        out[e.i] = None
        for p in ordered[:k]:
            if p.ts <= e.ts and e.end <= p.end and (e.ts < p.end or p.ts == e.ts):
                out[e.i] = p  # later in this order = further inside
    return out


def events(rank_events):
    """Rows of the slices: keyed by file position."""
    rows = {}
    for track in group_by(slices(rank_events), track_of).values():
        up = parents(track)
        for e in track:
            depth, p = 0, up[e.i]
            while p is not None:
                depth, p = depth + 1, up[p.i]
            inside = sum(c.dur for c in track if up[c.i] is e)
            rows[e.i] = {
                "name": e.name,
                "category": e.cat,
                "start_ns": e.ts,
                "dur_ns": e.dur,
                "self_ns": e.dur - inside,
                "depth": depth,
                "parent": up[e.i],
            }
    return rows


def tracks(rank_events):
    out = {}
    for _key, track in group_by(slices(rank_events), track_of).items():
        out[(str(track[0].pid), str(track[0].tid))] = {
            "slices": len(track),
            "first_ns": min(e.ts for e in track),
            "last_ns": max(e.end for e in track),
            "busy_ns": covered([(e.ts, e.end) for e in track]),
        }
    return out


# ---- kernels, annotations, memory --------------------------------------------------------------------------


OCCUPANCY = "est. achieved occupancy %"


def is_estimated(e):
    """Kineto writes 0 too where it cannot estimate; rounded to 0 are those of less than half a percent of the 2,048
    threads of a multiprocessor."""
    warps = arg(e, "warps per SM")
    return arg(e, OCCUPANCY) != 0 or (warps is not None and 100 * warps * 32 / 2048 < 0.5)


def weighted(work, key):
    time = sum(e.dur for e in work)
    is_stated = any(e.dur > 0 and arg(e, key) is not None for e in work)
    return sum(float(arg(e, key, 0)) * e.dur for e in work) / time if is_stated else None


def kernels(rank_events):
    out = {}
    work = [e for e in slices(rank_events) if e.cat in DEVICE]
    everything = sum(e.dur for e in work)
    for (cat, name), group in group_by(work, lambda e: (e.cat, e.name)).items():
        out[(cat, name)] = {
            **figures([e.dur for e in group]),
            "type": TYPE_OF.get(name, "MEMORY"),
            "pct": 100 * sum(e.dur for e in group) / everything if everything else None,
        }
        if cat == "kernel":
            out[(cat, name)].update(
                blocks_per_sm=weighted(group, "blocks per SM"),
                occupancy_pct=weighted([e for e in group if is_estimated(e)], OCCUPANCY),
            )
    return out


def annotations(rank_events):
    sides = {"user_annotation": "cpu", "gpu_user_annotation": "gpu"}
    found = [e for e in slices(rank_events) if e.cat in sides]
    return {
        key: figures([e.dur for e in group]) for key, group in group_by(found, lambda e: (sides[e.cat], e.name)).items()
    }


def memory(rank_events):
    found = [e for e in rank_events if e.name == "[memory]"]
    found.sort(key=lambda e: (e.ts, e.i))
    out = {}
    for (kind, ident), group in group_by(found, lambda e: (arg(e, "Device Type"), arg(e, "Device Id"))).items():
        sizes = [arg(e, "Bytes") for e in group]
        live, paired, strangers = {}, 0, 0
        for e in group:
            where = arg(e, "Addr")
            if arg(e, "Bytes") > 0:
                live[where] = e
            elif live.pop(where, None) is not None:
                paired += 1
            else:
                strangers += 1
        sums = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
        allocated = [arg(e, "Total Allocated") for e in group if arg(e, "Total Allocated") is not None]
        reserved = [arg(e, "Total Reserved") for e in group if arg(e, "Total Reserved") is not None]
        out["CPU" if kind == 0 else "GPU%d" % ident] = {
            "events": len(group),
            "allocations": sum(s > 0 for s in sizes),
            "alloc_bytes": sum(s for s in sizes if s > 0),
            "free_bytes": -sum(s for s in sizes if s <= 0),
            "net_bytes": sum(sizes),
            "peak_net_bytes": max(sums),
            "peak_allocated_bytes": max(allocated, default=None),
            "peak_reserved_bytes": max(reserved, default=None),
            "with_addr": len(group),
            "paired": paired,
            "never_freed": len(live),
            "free_without_alloc": strangers,
        }
    return out


# ---- operators and launches --------------------------------------------------------------------------------


def in_op_tree(e):
    return (
        e.cat == "cpu_op"
        or (e.cat == "user_annotation" and e.name.startswith(("ProfilerStep#", "Optimizer.step", "enumerate(Data")))
        or (e.cat == "python_function" and arg(e, "Python module id") is not None)
    )


def is_operator(e):
    return e.cat == "cpu_op" and not e.name.startswith(("ProfilerStep#", "Optimizer.step", "enumerate(Data"))


class Node:
    def __init__(self, event):
        self.event, self.parent, self.children, self.calls, self.call_ns = event, None, [], [], 0


def op_forest(rank_events, belongs=in_op_tree):
    """All nodes, outer before inner; a node that partly overlaps an earlier one closes it. Of equal extents a module is
    around an operator."""
    nodes = []
    for track in group_by([e for e in slices(rank_events) if belongs(e)], track_of).values():
        open_nodes = []
        for e in sorted(track, key=lambda e: (e.ts, -e.dur, belongs is in_op_tree and e.cat != "python_function", e.i)):
            node = Node(e)
            open_nodes = [
                n
                for n in open_nodes
                if (e.ts < n.event.end or (e.dur == 0 and n.event.ts == e.ts)) and e.end <= n.event.end
            ]
            if open_nodes:
                node.parent = open_nodes[-1]
                node.parent.children.append(node)
            open_nodes.append(node)
            nodes.append(node)
    return nodes


def owner(nodes, call):
    """(how, node): the operator behind a host call."""
    wanted = arg(call, "External id")
    if wanted is not None:
        for n in nodes:
            if n.event.cat == "cpu_op" and arg(n.event, "External id") == wanted:
                return "external_id", n
    around = [
        n
        for n in nodes
        if track_of(n.event) == track_of(call)
        and n.event.ts <= call.ts < max(n.event.end, n.event.ts + 1)
        and is_operator(n.event)
    ]
    return ("containment", around[-1]) if around else ("none", None)  # the one that began last


def time_in_calls(rank_events, nodes):
    """Fills in call_ns of each node: how long its thread is inside a runtime call while the node is the innermost one.
    A call takes nothing from a node that begins during it."""
    for track in group_by([e for e in slices(rank_events) if is_call(e)], track_of).values():
        here = [n for n in nodes if track_of(n.event) == track_of(track[0])]
        for a, b in pairwise_ends([n.event for n in here] + track):
            on = [n for n in here if n.event.ts <= a and b <= n.event.end]
            inner = on[-1] if on else None
            if inner and any(
                c.ts <= a and b <= c.end and (c.ts, -c.dur) >= (inner.event.ts, -inner.event.dur) for c in track
            ):
                inner.call_ns += b - a


def pairwise_ends(events):
    points = sorted({p for e in events for p in (e.ts, e.end)})
    return list(zip(points, points[1:]))


def host_call(rank_events, work):
    for e in slices(rank_events):
        if is_call(e) and arg(e, "correlation") == arg(work, "correlation"):
            return e
    return None


def launches(rank_events):
    nodes = op_forest(rank_events)
    work = [e for e in slices(rank_events) if e.cat in DEVICE]
    out = {
        "device_events": len(work),
        "with_host_call": 0,
        "without_host_call": 0,
        "op_by_external_id": 0,
        "op_by_containment": 0,
        "op_by_none": 0,
        "call_ns": 0,
    }
    delays, calls = [], {}
    for e in work:
        call = host_call(rank_events, e)
        if call is None:
            out["without_host_call"] += 1
            continue
        out["with_host_call"] += 1
        out["op_by_" + owner(nodes, call)[0]] += 1
        calls[call.i] = call.dur  # one call of a graph launches several; its time passes once
        delays.append(max(0, e.ts - call.end))
    out["call_ns"] = sum(calls.values())
    if work:
        out["match_pct"] = 100 * out["with_host_call"] / len(work)
    if delays:
        out.update(
            delay_mean_ns=sum(delays) / len(delays),
            delay_max_ns=max(delays),
            delay_p50_ns=quantile(delays, fractions.Fraction(1, 2)),
            delay_p99_ns=quantile(delays, fractions.Fraction(99, 100)),
        )
    return out


def merge_doubles(node):
    """An operator whose only child is an operator of the same name is one call of it, with the child's host calls."""
    while (
        is_operator(node.event)
        and len(node.children) == 1
        and is_operator(node.children[0].event)
        and node.children[0].event.name == node.event.name
    ):
        only = node.children[0]
        node.calls += only.calls
        node.call_ns += only.call_ns
        node.children = only.children
    for child in node.children:
        merge_doubles(child)


def ops(rank_events):
    nodes = op_forest(rank_events)
    taken = set()
    for call in slices(rank_events):
        if is_call(call):
            node = owner(nodes, call)[1]
            if node is not None:
                correlation = arg(call, "correlation")
                work = (
                    []
                    if correlation in taken
                    else [
                        e.dur for e in slices(rank_events) if e.cat in DEVICE and arg(e, "correlation") == correlation
                    ]
                )
                taken.add(correlation)
                node.calls.append(sum(work))
    time_in_calls(rank_events, nodes)
    roots = [n for n in nodes if n.parent is None]
    table = {}

    def visit(node):
        own = sum(node.calls)
        device = own + sum(visit(c) for c in node.children)
        e = node.event
        if is_operator(e) and e.name not in DDP and not e.name.startswith("Optimizer."):
            row = table.setdefault(
                e.name, dict.fromkeys(("calls", "cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns"), 0)
            )
            row["calls"] += 1
            row["cpu_ns"] += e.dur
            row["self_cpu_ns"] += e.dur - sum(c.event.dur for c in node.children) - node.call_ns
            row["device_ns"] += device
            row["self_device_ns"] += own
        return device

    for n in roots:
        merge_doubles(n)
    for n in roots:
        visit(n)
    for row in table.values():
        row["mean_cpu_ns"], row["mean_device_ns"] = row["cpu_ns"] / row["calls"], row["device_ns"] / row["calls"]
        for column in ("cpu", "device"):
            whole = sum(r["self_%s_ns" % column] for r in table.values())
            row["self_%s_pct" % column] = 100 * row["self_%s_ns" % column] / whole if whole > 0 else None
    return table


# ---- the rows of torch's key_averages() --------------------------------------------------------------------


def on_host(e):
    return e.cat in ("cpu_op", "user_annotation", "python_function") or is_call(e)


def shown_name(e):
    return "ProfilerStep*" if e.cat == "user_annotation" and e.name.startswith("ProfilerStep#") else e.name


def without_doubles(nodes):
    """{file position: node}: what is the only child of a node of the same name is that node."""
    stands_for = {}
    for n in nodes:  # a parent comes before its children
        if n.event.i in stands_for:
            continue
        stands_for[n.event.i] = n
        while len(n.children) == 1 and shown_name(n.children[0].event) == shown_name(n.event):
            only = n.children[0]
            stands_for[only.event.i] = n
            n.children = only.children
            for child in n.children:
                child.parent = n
    return stands_for


def around_and_self(node):
    while node is not None:
        yield node
        node = node.parent


def add_device_time(rank_events, stands_for, sums):
    """To the operator behind each launch, and to all around it."""
    operators, taken = op_forest(rank_events), set()
    for call in slices(rank_events):
        if not is_call(call) or arg(call, "correlation") in taken:
            continue
        taken.add(arg(call, "correlation"))
        work = sum(
            e.dur for e in slices(rank_events) if e.cat in DEVICE and arg(e, "correlation") == arg(call, "correlation")
        )
        op = owner(operators, call)[1]
        if op is not None:
            node = stands_for[op.event.i]
            sums[node.event.i]["self_device_ns"] += work
            for n in around_and_self(node):
                sums[n.event.i]["device_ns"] += work


def add_memory(rank_events, nodes, stands_for, sums):
    """To the innermost node of the event's thread; returns what has none."""
    left = []
    for e in (e for e in rank_events if e.name == "[memory]"):
        side = "cpu" if arg(e, "Device Type") == 0 else "device"
        begun = [n for n in nodes if track_of(n.event) == track_of(e) and n.event.ts <= e.ts]
        inside = [n for n in around_and_self(begun[-1] if begun else None) if n.event.end > e.ts]
        if not inside:
            left.append((e, side))
            continue
        node = stands_for[inside[0].event.i]
        sums[node.event.i]["self_%s_memory_bytes" % side] += arg(e, "Bytes")
        for n in around_and_self(node):
            sums[n.event.i]["%s_memory_bytes" % side] += arg(e, "Bytes")
    return left


SUMS = (
    "calls",
    "cpu_ns",
    "self_cpu_ns",
    "device_ns",
    "self_device_ns",
    "cpu_memory_bytes",
    "self_cpu_memory_bytes",
    "device_memory_bytes",
    "self_device_memory_bytes",
)


def key_averages(rank_events, python):
    """{(name, on a device, annotation): sums and the start of the first}."""
    nodes = op_forest(rank_events, on_host)
    order = list(nodes)
    stands_for = without_doubles(nodes)
    sums = {n.event.i: dict.fromkeys(SUMS, 0) for n in nodes}
    add_device_time(rank_events, stands_for, sums)
    left = add_memory(rank_events, order, stands_for, sums)
    rows = {}

    def add(key, start, values):
        row = rows.setdefault(key, dict.fromkeys(SUMS, 0) | {"start_ns": start})
        row["start_ns"] = min(row["start_ns"], start)
        for name, value in values.items():
            row[name] += value

    for n in nodes:
        e = n.event
        if stands_for[e.i] is n and (python or e.cat != "python_function"):
            inside = sum(c.event.dur for c in n.children)
            add(
                (shown_name(e), False, e.cat == "user_annotation"),
                e.ts,
                sums[e.i] | {"calls": 1, "cpu_ns": e.dur, "self_cpu_ns": e.dur - inside},
            )
    for e in slices(rank_events):
        if e.cat in DEVICE:
            add((e.name, True, False), e.ts, {"calls": 1, "device_ns": e.dur, "self_device_ns": e.dur})
    for e, side in left:
        add(
            (e.name, False, None),
            e.ts,
            {"calls": 1, "%s_memory_bytes" % side: arg(e, "Bytes"), "self_%s_memory_bytes" % side: arg(e, "Bytes")},
        )
    return rows


# ---- steps -------------------------------------------------------------------------------------------------

PARTS = ("kernel_ns", "memcpy_ns", "memset_ns", "communication_ns", "runtime_ns", "dataloader_ns", "cpu_exec_ns")


def part_of(e):
    """Which of the parts an event belongs to; None for none."""
    if e.cat in ("kernel", "gpu_memcpy", "gpu_memset"):
        communication = e.cat == "kernel" and TYPE_OF[e.name] == "COMMUNICATION"
        return 3 if communication else ("kernel", "gpu_memcpy", "gpu_memset").index(e.cat)
    if is_call(e):
        return 4
    if e.cat in ("cpu_op", "user_annotation") and not e.name.startswith("ProfilerStep#"):
        return 5 if e.name.startswith("enumerate(DataLoader)#") and e.name.endswith(".__next__") else 6
    return None


class Step:
    def __init__(self, event):
        self.event, self.start, self.end, self.work = event, event.ts, event.end, []


def moved_steps(found, work, launched_by):
    """Steps hold the device work they launched and none of earlier ones; those at the end without theirs are left
    out."""
    steps = [Step(e) for e in sorted(found, key=lambda e: (e.ts, e.end, e.i))]
    for s in steps:
        s.work = [
            d
            for d in work
            if launched_by[d.i] is not None and s.start <= launched_by[d.i].ts and launched_by[d.i].end <= s.end
        ]
    used = {d.i for s in steps for d in s.work}
    if not used:
        return steps
    before = steps[0].start
    if steps[0].work:
        first = min(d.ts for d in steps[0].work)
        before = max([before] + [d.end for d in work if d.i not in used and d.end < first])
    for s in steps:
        s.start = max(before, s.start)
        s.end = max([s.end, s.start] + [d.end for d in s.work])
        before = s.end
    if len(steps) > 1:
        last = max(k for k, s in enumerate(steps) if s.work)
        short = last > 0 and 10 * len(steps[last].work) < 8 * len(steps[last - 1].work)
        steps = steps[: last if short else last + 1]
    return steps


def overlap_length(step, a, b=None):
    """Length of the part of a step where some interval of a (and of b, if given) is on."""
    points = sorted({step.start, step.end} | {p for iv in a + (b or []) for p in iv if step.start < p < step.end})

    def on(intervals, p, q):
        return any(s <= p and q <= t for s, t in intervals)

    return sum(q - p for p, q in zip(points, points[1:]) if on(a, p, q) and (b is None or on(b, p, q)))


def steps(rank_events):
    """Rows for traces with ProfilerStep annotations; None without."""
    all_slices = slices(rank_events)
    found = [e for e in all_slices if e.name.startswith("ProfilerStep#") and e.cat == "user_annotation"]
    if not found:
        return None
    work = [e for e in all_slices if e.cat in DEVICE]
    roles = [[(e.ts, e.end) for e in all_slices if part_of(e) == k] for k in range(len(PARTS))]
    rows = []
    for s in moved_steps(found, work, {d.i: host_call(rank_events, d) for d in work}):
        row, points = {}, sorted({s.start, s.end} | {p for r in roles for iv in r for p in iv if s.start < p < s.end})
        parts = dict.fromkeys(PARTS + ("other_ns",), 0)
        for p, q in zip(points, points[1:]):
            on = [name for name, r in zip(PARTS, roles) if any(a <= p and q <= b for a, b in r)]
            parts[on[0] if on else "other_ns"] += q - p
        computing = roles[0] or roles[6]
        row.update(
            parts,
            step=s.event.name.split("#")[1],
            name=s.event.name,
            start_ns=s.start,
            total_ns=s.end - s.start,
            host_ns=s.event.dur,
            computation_ns=overlap_length(s, computing),
            all_communication_ns=overlap_length(s, roles[3]),
            overlap_ns=overlap_length(s, computing, roles[3]),
            device_events=len(s.work),
            short_kernels=sum(e.cat == "kernel" and e.dur < 10_000 for e in s.work),
        )
        row["neither_ns"] = row["total_ns"] - row["computation_ns"] - row["all_communication_ns"] + row["overlap_ns"]
        rows.append(row)
    return rows


# ---- gaps, stacks ------------------------------------------------------------------------------------------


def gaps(rank_events):
    """{(device, start, length)}: idle between the first and the last device work."""
    out = set()
    for device, work in group_by(
        [e for e in slices(rank_events) if e.cat in DEVICE], lambda e: arg(e, "device")
    ).items():
        for e in work:
            later = [w.ts for w in work if w.ts > e.end]
            if later and not any(w.ts <= e.end < w.end or w.ts == e.end for w in work if w is not e and w.end > e.end):
                out.add((device, e.end, min(later) - e.end))
    return out


def stacks_by_function(rank_events):
    """Spans of modules without other frames are no call stacks."""
    out, frames = {}, [e for e in slices(rank_events) if e.cat == "python_function"]
    if all("Python module id" in e.args for e in frames):
        return out
    for track in group_by(frames, track_of).values():
        up = parents(track)
        for e in track:
            row = out.setdefault(e.name, {"calls": 0, "cpu_ns": 0, "self_cpu_ns": 0})
            around, p = [], up[e.i]
            while p is not None:
                around, p = around + [p.name], up[p.i]
            row["calls"] += 1
            row["cpu_ns"] += 0 if e.name in around else e.dur
            row["self_cpu_ns"] += e.dur - sum(c.dur for c in track if up[c.i] is e)
    return out
