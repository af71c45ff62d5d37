"""Slow, plain answers to the questions about operators and the device work they launched, from the definitions in
docs/metrics.md. As reference.py: input is the content of traces.py, one rank at a time, times in ns; quadratic where
that is the obvious way."""

import collections

from reference import DEVICE, group_by, host_call, in_order, op_forest, owner, parents, slices, track_of

HOST = ("cpu_op", "user_annotation", "python_function")


def device_work(events):
    return [e for e in slices(events) if e.cat in DEVICE]


def all_parents(events):
    """{file position: parent event or None}, by nesting on each track."""
    out = {}
    for track in group_by(slices(events), track_of).values():
        out.update(parents(track))
    return out


def up_from(e, up):
    while e is not None:
        yield e
        e = up[e.i]


# ---- op_kernels --------------------------------------------------------------------------------------------


def op_calls(events):
    """[(operator, [(host call, device work) …] by launch)] of the operators that launched something."""
    nodes, launched = op_forest(events), collections.OrderedDict()
    for work in device_work(events):
        call = host_call(events, work)
        op = owner(nodes, call)[1] if call is not None else None
        if op is not None:
            launched.setdefault(op.event.i, (op.event, []))[1].append((call, work))
    return [(op, sorted(pairs, key=lambda p: (p[0].ts, p[1].ts, p[1].i))) for op, pairs in launched.values()]


def op_kernels(events, by):
    rows = {}
    for op, pairs in op_calls(events):
        sequence = tuple(work.name for _, work in pairs)
        key = {"sequence": (op.name, sequence), "op": (op.name, None), "call": (op.name, sequence, op.i)}[by]
        rows.setdefault(key, []).append((op, pairs, sequence))
    out = {}
    for key, calls in rows.items():
        n = len(calls)
        out[key] = {
            "calls": n,
            "sequences": len({c[2] for c in calls}),
            "kernels": sum(len(c[1]) for c in calls),
            "op_ns": sum(c[0].dur for c in calls),
            "device_ns": sum(w.dur for c in calls for _, w in c[1]),
            "start_ns": min(c[0].ts for c in calls),
            "launch_delay_ns": sum(c[1][0][0].ts - c[0].ts for c in calls) / n,
            "runtime_delay_ns": sum(c[1][0][1].ts - c[1][0][0].ts for c in calls) / n,
        }
    return out


# ---- sequences ---------------------------------------------------------------------------------------------


def roots(events, wanted):
    """{file position: the operator of the wanted name it lies below, or itself}, for what lies below one."""
    up, nodes = all_parents(events), op_forest(events)
    classes, out = HOST if wanted else HOST[:1], {}
    for e in slices(events):
        found = [x for x in up_from(e, up) if x.cat in classes and wanted in x.name]
        if found:
            out[e.i] = found[-1]
    for work in device_work(events):
        call = host_call(events, work)
        op = owner(nodes, call)[1] if call is not None else None
        for launcher in (call, op.event if op is not None else None):
            if launcher is not None and launcher.i in out and work.i not in out:
                out[work.i] = out[launcher.i]
    return out


def sequences(events, wanted, least):
    """({(operator, pattern): figures}, [(event, pattern) …])"""
    of, below, rows, inside = roots(events, wanted), {}, {}, []
    for work in device_work(events):
        if work.i in of:
            below.setdefault(of[work.i].i, (of[work.i], []))[1].append(work)
    for root, work in below.values():
        if len(work) >= least:
            pattern = "|".join([root.name] + [w.name for w in sorted(work, key=lambda w: (w.ts, w.i))])
            rows.setdefault((root.name, pattern), []).append((root, work))
            inside += [(e, pattern) for e in slices(events) if e.i in of and of[e.i] is root]
    return {
        key: {
            "count": len(found),
            "kernels": len(found[0][1]),
            "kernel_ns": sum(w.dur for _, work in found for w in work),
            "op_ns": sum(root.dur for root, _ in found),
            "start_ns": min(root.ts for root, _ in found),
        }
        for key, found in rows.items()
    }, inside


# ---- kernel_annotations ------------------------------------------------------------------------------------


def shares_time(work, annotation):
    if annotation.dur == 0:
        return False
    if work.dur == 0:
        return annotation.ts <= work.ts < annotation.end
    return work.ts < annotation.end and annotation.ts < work.end


def gpu_annotation(events, work):
    found = [
        a
        for a in slices(events)
        if a.cat == "gpu_user_annotation" and track_of(a) == track_of(work) and shares_time(work, a)
    ]
    return min(found, key=lambda a: (a.dur, a.ts, a.i), default=None)


def cpu_annotation(events, work, up, nodes):
    call = host_call(events, work)
    if call is None:
        return None
    op = owner(nodes, call)[1]
    for start in (call, op.event if op is not None else None):
        for e in up_from(start, up):
            if e.cat == "user_annotation":
                return e
    return None


def kernel_annotations(events, side):
    """[(device work, annotation or None)]"""
    up, nodes = all_parents(events), op_forest(events)
    return [
        (w, gpu_annotation(events, w) if side == "gpu" else cpu_annotation(events, w, up, nodes))
        for w in device_work(events)
    ]


# ---- call_graph --------------------------------------------------------------------------------------------


def is_range(e):
    return e.name.startswith(("ProfilerStep#", "## backward ##"))


def hang_backward(events, up):
    threads = group_by([e for e in slices(events) if e.cat not in DEVICE + ("gpu_user_annotation",)], track_of)
    main = {key: [e for e in in_order(t) if is_range(e)] for key, t in threads.items() if any(map(is_range, t))}
    for key, thread in threads.items():
        homes = [ranges for k, ranges in main.items() if k[:2] == key[:2]]
        if key in main or len(homes) != 1 or not any("autograd::" in e.name for e in thread):
            continue
        around = parents(homes[0])  # only of the ranges
        for e in thread:
            if up[e.i] is not None:
                continue
            begun = [r for r in homes[0] if r.ts <= e.ts]
            r = begun[-1] if begun else None
            while r is not None and r.end < e.end:
                r = around[r.i]
            up[e.i] = r


def call_graph(events):
    """{file position: (event, parent, figures)}"""
    up = all_parents(events)
    nodes = [e for e in slices(events) if e.cat != "gpu_user_annotation"]
    hang_backward(events, up)
    for work in device_work(events):
        up[work.i] = host_call(events, work)
    kids = collections.defaultdict(list)
    for e in nodes:
        if up[e.i] is not None:
            kids[up[e.i].i].append(e)

    def below(e):
        work = [e] if e.cat in DEVICE else []
        return work + [w for k in kids[e.i] for w in below(k)]

    def height(e):
        return 0 if e.cat in DEVICE else max([1] + [height(k) + 1 for k in kids[e.i]])

    out = {}
    for e in nodes:
        work = below(e)
        first, last = min((w.ts for w in work), default=None), max((w.end for w in work), default=None)
        out[e.i] = (
            e,
            up[e.i],
            {
                "depth": sum(1 for _ in up_from(e, up)) - 1,
                "height": height(e),
                "kernels": len(work),
                "kernel_ns": sum(w.dur for w in work),
                "first_ns": first,
                "last_ns": last,
                "kernel_span_ns": last - first if work else None,
            },
        )
    return out


# ---- HTA's call stacks -------------------------------------------------------------------------------------


def hta_parents(thread):
    """{file position: parent} by pushing at every start and popping at every end, for times in whole microseconds."""
    out, stack = {}, []
    for now in sorted({t for e in thread for t in (e.ts, e.end)}):
        ends = [e for e in thread if e.dur > 0 and e.end == now]
        starts = sorted((e for e in thread if e.ts == now), key=lambda e: (-e.dur, e.i))
        longer = [e for e in starts if e.dur > 0]
        for phase in ("end", "start", "empty") if longer else ("start", "empty", "end"):
            if phase == "end":
                del stack[max(0, len(stack) - len(ends)) :]
            elif phase == "start":
                for e in starts:
                    out[e.i] = stack[-1] if stack else None
                    stack.append(e)
            else:
                del stack[len(stack) - (len(starts) - len(longer)) :]
    return out
