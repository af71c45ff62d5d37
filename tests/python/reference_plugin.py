"""The slow reference for what the views show: devices, totals, classes, the largest entries, modules, memory by
operator. By brute force, from the definitions in docs/metrics.md."""

import reference
from reference import DDP, DEVICE, arg, covered, group_by, is_operator, op_forest, slices, track_of


def devices(rank_events):
    return sorted({arg(e, "device") for e in slices(rank_events) if e.cat == "kernel"})


def measure(kernels, start, end):
    """Figures of the window [start, end): every stretch between two points of change, one after the other."""
    length = end - start
    points = sorted({start, end, *(t for e in kernels for t in (e.ts, e.end) if start < t < end)})
    busy = sm = occupied = weighted = 0
    for a, b in zip(points, points[1:]):
        running = [e for e in kernels if e.ts <= a and b <= e.end]
        busy += (b - a) * bool(running)
        sm += (b - a) * min(1, sum(arg(e, "blocks per SM", 0) for e in running))
        for e in running:
            if arg(e, reference.OCCUPANCY) is not None and reference.is_estimated(e):
                occupied += b - a
                weighted += (b - a) * arg(e, reference.OCCUPANCY)
    inside = [e for e in kernels if max(e.ts, start) < min(e.end, end) and arg(e, "blocks per SM", 0) > 0]
    return {
        "busy_ns": busy,
        "utilization_pct": 100 * busy / length if length else None,
        "sm_efficiency_pct": 100 * sm / length if length and inside else None,
        "occupancy_pct": weighted / occupied if occupied else None,
    }


def of_device(rank_events, device):
    return [e for e in slices(rank_events) if e.cat == "kernel" and arg(e, "device") == device]


def device_metrics(rank_events):
    """None where the reference for steps has none."""
    steps = reference.steps(rank_events)
    if not steps:
        return None
    start, end = steps[0]["start_ns"], steps[-1]["start_ns"] + steps[-1]["total_ns"]
    return {
        d: {
            "start_ns": start,
            "dur_ns": end - start,
            "kernels": len(of_device(rank_events, d)),
            **measure(of_device(rank_events, d), start, end),
        }
        for d in devices(rank_events)
    }


def device_curve(rank_events, width):
    start, end = min(e.ts for e in slices(rank_events)), max(e.end for e in slices(rank_events))
    count = max(1, (end - start) // width)
    rows = {}
    for d in devices(rank_events):
        for k in range(count):
            a, b = start + k * width, start + (k + 1) * width if k + 1 < count else end
            row = measure(of_device(rank_events, d), a, b)
            row["dur_ns"] = b - a
            any_blocks = any(arg(e, "blocks per SM", 0) > 0 and e.dur for e in of_device(rank_events, d))
            row["sm_efficiency_pct"] = (row["sm_efficiency_pct"] or 0.0) if any_blocks and b > a else None
            rows[d, a] = row
    return rows


# ---- operators ---------------------------------------------------------------------------------------------


def forest(rank_events):
    """Nodes after repeats were merged, outer before inner, with the device work of their host calls; and what each
    merged node is now part of."""
    nodes, taken = op_forest(rank_events), set()
    for call in slices(rank_events):
        if reference.is_call(call):
            node = reference.owner(nodes, call)[1]
            if node is not None:
                correlation = arg(call, "correlation")
                work = (
                    []
                    if correlation in taken
                    else [e for e in slices(rank_events) if e.cat in DEVICE and arg(e, "correlation") == correlation]
                )
                taken.add(correlation)
                node.calls.append(work)
    reference.time_in_calls(rank_events, nodes)
    stands_for = {}
    for n in nodes:
        if n not in stands_for:
            stands_for[n] = n
            while (
                is_operator(n.event)
                and len(n.children) == 1
                and is_operator(n.children[0].event)
                and n.children[0].event.name == n.event.name
            ):
                only = n.children[0]
                stands_for[only] = n
                n.calls += only.calls
                n.call_ns += only.call_ns
                n.children = only.children
            for child in n.children:
                child.parent = n
    return [n for n in nodes if stands_for[n] is n], stands_for


def in_table(e):
    return is_operator(e) and e.name not in DDP and not e.name.startswith("Optimizer.")


def totals(rank_events):
    everything = slices(rank_events)
    nodes = [n for n in forest(rank_events)[0] if in_table(n.event)]
    work = [e for e in everything if e.cat in DEVICE]
    per_thread = [
        covered([(n.event.ts, n.event.end) for n in group])
        for group in group_by(nodes, lambda n: track_of(n.event)).values()
    ]
    runtime = sum(n.call_ns for n in nodes)
    return {
        "wall_ns": max(e.end for e in everything) - min(e.ts for e in everything) if everything else 0,
        "cpu_ns": covered([(n.event.ts, n.event.end) for n in nodes]),
        "thread_cpu_ns": sum(per_thread),
        "runtime_ns": runtime,
        "self_cpu_ns": sum(n.event.dur - sum(c.event.dur for c in n.children) for n in nodes) - runtime,
        "nested_cpu_ns": sum(n.event.dur for n in nodes),
        "ops": len(nodes),
        "device_ns": covered([(e.ts, e.end) for e in work]),
        "device_sum_ns": sum(e.dur for e in work),
        "device_events": len(work),
    }


def top(rank_events, device):
    rows = {}
    if device:
        for e in slices(rank_events):
            if e.cat in DEVICE:
                rows.setdefault(
                    (e.name, {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}[e.cat]), []
                ).append(e.dur)
    else:
        for n in forest(rank_events)[0]:
            if in_table(n.event):
                own = n.event.dur - sum(c.event.dur for c in n.children) - n.call_ns
                rows.setdefault((n.event.name, "operator"), []).append(own)
    whole = sum(map(sum, rows.values()))
    return {
        key: {
            "calls": len(v),
            "total_ns": sum(v),
            "total_ms": sum(v) / 1e6,
            "pct": 100 * sum(v) / whole if whole > 0 else 0.0,
            "mean_ns": sum(v) / len(v),
        }
        for key, v in rows.items()
    }


# ---- memory ------------------------------------------------------------------------------------------------


def memory_ops(rank_events):
    nodes, stands_for = forest(rank_events)
    order = {n: k for k, n in enumerate(stands_for)}
    sums = {}
    for e in rank_events:
        if e.name != "[memory]":
            continue
        around = [n for n in stands_for if track_of(n.event) == track_of(e) and n.event.ts <= e.ts < n.event.end]
        node = stands_for[max(around, key=order.get)] if around else None
        while node is not None and not in_table(node.event):
            node = node.parent
        device = "CPU" if arg(e, "Device Type") == 0 else "GPU%d" % arg(e, "Device Id")
        figures, own = (arg(e, "Bytes"), arg(e, "Bytes") > 0, max(arg(e, "Bytes"), 0)), True
        while node is not None:
            if in_table(node.event):
                row = sums.setdefault(
                    (device, node.event.name),
                    dict.fromkeys(
                        (
                            "net_bytes",
                            "self_net_bytes",
                            "allocations",
                            "self_allocations",
                            "alloc_bytes",
                            "self_alloc_bytes",
                        ),
                        0,
                    ),
                )
                for name, value in zip(("net_bytes", "allocations", "alloc_bytes"), figures):
                    row[name] += value
                    row["self_" + name] += value * own
            node, own = node.parent, False
    for (_, name), row in sums.items():
        row["calls"] = sum(n.event.name == name for n in nodes if in_table(n.event))
    return sums


# ---- modules -----------------------------------------------------------------------------------------------


def is_frame(n):
    return n.event.cat == "python_function"


def places(nodes):
    """{node: (place, by way of autograd)}. These traces link no backward node, so autograd is only AccumulateGrad."""
    out = {}
    for track in group_by(nodes, lambda n: track_of(n.event)).values():
        group = ()
        for n in track:
            around, inside = out.get(n.parent, ((), False))
            autograd = is_operator(n.event) and n.event.name.endswith("AccumulateGrad")
            place = around + (n.event.name.removeprefix("nn.Module: "),) if is_frame(n) else around
            if inside and is_frame(n) and not is_frame(n.parent):  # computed again: the place it had, if that is around
                name = place[-1]
                place = max(
                    (around[: k + 1] for k, label in enumerate(around) if label == name), key=len, default=place
                )
            if autograd and not inside:
                place = group = group or around
            elif not inside and place:
                group = ()
            out[n] = (place, inside or autograd)
    return out


def modules(rank_events):
    nodes, _ = forest(rank_events)
    place_of, rows = places(nodes), {}

    def row(place):
        return rows.setdefault(
            place,
            dict.fromkeys(
                (
                    "calls",
                    "recomputed",
                    "ops",
                    "self_cpu_ns",
                    "python_ns",
                    "self_device_ns",
                    "backward_ops",
                    "backward_self_cpu_ns",
                    "backward_self_device_ns",
                ),
                0,
            ),
        )

    for n in nodes:
        place, backward = place_of[n]
        if not (is_frame(n) or is_operator(n.event)):
            continue
        for k in range(len(place)):
            row(place[: k + 1])
        r, side = row(place), "backward_" if backward and place else ""
        own = n.event.dur - sum(c.event.dur for c in n.children)
        r[side + "self_cpu_ns"] += own
        if is_frame(n):
            r["recomputed" if backward else "calls"] += 1
            r["python_ns"] += 0 if backward else own
        else:
            r[side + "ops"] += in_table(n.event) and (n.parent is None or not is_operator(n.parent.event))
            for work in n.calls:
                for e in work:
                    lost = backward and e.cat == "kernel" and e.name.startswith("nccl")
                    row(() if lost else place)[("" if lost else side) + "self_device_ns"] += e.dur
    return rows
