"""Memory and tensor cores by operator, memory by category, and loader_overlap: each against a slow count over the
events of random traces."""

import collections
import random
import statistics

import pytest
import reference
import traces
from hypothesis import given, strategies as st
from reference import DEVICE, arg, slices, track_of
from test_property import CONTENT, SETTINGS, Written, check_rows

TENSOR_KERNEL = "nvjet_hsh_64x8"


def build(content):
    """Some kernels use tensor cores; of every other trace memory is taken and freed just when operators begin and
    end."""
    ranks = traces.build(**{**content, "ranks": 1, "gpu": True, "memory": True})
    memory = sorted((e for e in ranks[0].events if e.name == "[memory]"), key=lambda e: e.ts)
    edges = sorted(
        {
            t
            for e in slices(ranks[0].events)
            if e.cat == "cpu_op" and memory and track_of(e) == track_of(memory[0])
            for t in (e.ts, e.end)
        }
    )
    if content["seed"] % 2 and len(edges) >= len(memory):
        for e, t in zip(memory, sorted(random.Random(content["seed"]).sample(edges, len(memory)))):
            e.ts = t
    for e in ranks[0].events:
        if e.name.startswith("gemm_kernel"):
            e.name = TENSOR_KERNEL
    return ranks


def device_of(e):
    return "CPU" if arg(e, "Device Type") == 0 else "GPU%d" % arg(e, "Device Id")


def up_from(node):
    while node is not None:
        yield node
        node = node.parent


def operator_at(nodes, e):
    """The operator around an instant: the innermost one on its thread, modules and annotations passed over."""
    begun = [n for n in nodes if track_of(n.event) == track_of(e) and n.event.ts <= e.ts]
    inside = [n for n in up_from(begun[-1] if begun else None) if n.event.end > e.ts]
    return next((n for n in inside if reference.is_operator(n.event)), None)


def as_one(nodes):
    """{node: the one it is a call of}: an operator whose only child has its name and is one, too, is one call with
    it."""
    out = {}
    for n in nodes:
        p = n.parent
        double = (
            p is not None
            and reference.is_operator(p.event)
            and reference.is_operator(n.event)
            and len(p.children) == 1
            and p.event.name == n.event.name
        )
        out[n] = out[p] if double else n
    return out


def check_ops(rank, ask):
    nodes, sums = reference.op_forest(rank.events), collections.defaultdict(collections.Counter)
    one, eligible, work = as_one(nodes), set(), [e for e in slices(rank.events) if e.cat in DEVICE]

    def add(node, what, value):
        sums[one[node]]["self_" + what] += value
        for n in {one[n] for n in up_from(node)}:
            sums[n][what] += value

    memory = [e for e in rank.events if e.name == "[memory]"]
    for e in memory:
        node = operator_at(nodes, e)
        if node is not None:
            add(node, "cpu_memory_bytes" if device_of(e) == "CPU" else "device_memory_bytes", arg(e, "Bytes"))
    for e in work:
        call = reference.host_call(rank.events, e)
        node = reference.owner(nodes, call)[1] if call is not None else None
        if node is not None:
            add(node, "device", e.dur)
            add(node, "tensor", e.dur * (e.name == TENSOR_KERNEL and e.cat == "kernel"))
            if e.name == TENSOR_KERNEL and e.cat == "kernel":
                eligible.update(up_from(node))
    for n in nodes:
        if reference.is_operator(n.event) and n.event.name == "aten::mm":
            eligible.update(up_from(n))
    want = collections.defaultdict(collections.Counter)
    for n in nodes:
        if reference.is_operator(n.event) and one[n] is n:
            want[n.event.name].update(sums[n])
    rows, suits = {r["name"]: r for r in ask("ops")}, {n.event.name for n in eligible}
    assert rows.keys() == want.keys()
    for name, row in rows.items():
        for column in ("cpu_memory_bytes", "device_memory_bytes"):
            for c in (column, "self_" + column):
                assert row[c] == (want[name][c] if memory else None), (name, c)
        assert row["tensor_eligible"] == (name in suits if any(e.cat == "kernel" for e in work) else None), name
        for own in ("", "self_"):
            whole, part = want[name][own + "device"], want[name][own + "tensor"]
            assert row[own + "tensor_pct"] == (pytest.approx(100 * part / whole) if whole else None), name


def check_memory_by_op(rank, ask):
    nodes, want = reference.op_forest(rank.events), {}
    for e in rank.events:
        if e.name == "[memory]":
            node, size = operator_at(nodes, e), arg(e, "Bytes")
            row = want.setdefault((device_of(e), node.event.name if node else None), collections.Counter())
            row.update(
                {
                    "events": 1,
                    "allocations": int(size > 0),
                    "alloc_bytes": max(size, 0),
                    "free_bytes": max(-size, 0),
                    "net_bytes": size,
                }
            )
    check_rows("memory", want, ask("memory", by="op") if want else [], lambda r: (r["device"], r["op"]))


def blocks_by_hand(events):
    """{device: [(bytes, taken, freed)]}: what is freed without having been taken was there before."""
    live, found = {}, collections.defaultdict(list)
    for e in sorted((e for e in events if e.name == "[memory]"), key=lambda e: e.ts):
        place = device_of(e), arg(e, "Addr")
        if arg(e, "Bytes") > 0:
            live[place] = [arg(e, "Bytes"), e.ts, None]
            found[place[0]].append(live[place])
        elif place in live:
            live.pop(place)[2] = e.ts
        else:
            found[place[0]].append([-arg(e, "Bytes"), None, e.ts])
    return found


def check_memory_by_category(rank, ask):
    """What a block is for is memory_blocks' to say; how much of it there was when is counted here, instant by
    instant."""
    found = blocks_by_hand(rank.events)
    if not found:
        return
    held, want = (
        {(r["device"], r["bytes"], r["made_ns"], r["freed_ns"]): r["category"] for r in ask("memory_blocks")},
        {},
    )
    for device, blocks in found.items():
        times = [None, *sorted({t for b in blocks for t in b[1:] if t is not None})]

        def alive(t, of):
            """None: before all changes."""
            return sum(
                size
                for size, made, freed in of
                if made is None
                and t is None
                or t is not None
                and (made is None or made <= t)
                and (freed is None or freed > t)
            )

        peak = max(times, key=lambda t: alive(t, blocks))  # of equal ones the first
        for category, of in reference.group_by(blocks, lambda b: held[(device, *b)]).items():
            taken, freed = [b[0] for b in of if b[1] is not None], [b[0] for b in of if b[2] is not None]
            want[device, category] = {
                "ts_ns": peak,
                "events": len(taken) + len(freed),
                "allocations": len(taken),
                "alloc_bytes": sum(taken),
                "free_bytes": sum(freed),
                "net_bytes": alive(peak, of),
                "peak_net_bytes": max(alive(t, of) for t in times),
            }
    check_rows("memory", want, ask("memory", by="category"), lambda r: (r["device"], r["category"]))


def check_loader_overlap(rank, ask):
    loading = [
        e
        for e in slices(rank.events)
        if e.name.startswith("enumerate(DataLoader)") and e.cat in ("cpu_op", "user_annotation")
    ]
    steps = ask("steps")
    if not loading or not steps or steps[0]["name"] == "whole recording":
        return
    windows = {
        e.name: (e.ts, e.end)
        for e in slices(rank.events)
        if e.cat == "user_annotation" and e.name.startswith("ProfilerStep#")
    }
    if not all(s["name"] in windows for s in steps):
        return  # told by something else
    step = statistics.mean(s["total_ns"] for s in steps)
    inside = [
        reference.covered([(max(e.ts, a), min(e.end, z)) for e in loading if e.ts < z and e.end > a])
        for a, z in (windows[s["name"]] for s in steps)
    ]
    data, rest = statistics.mean(inside), step - statistics.mean(s["dataloader_ns"] for s in steps)
    want = {}
    for workers in (1, 2, 5, None):
        share = data / workers if workers else 0
        best = min(step, max(share, rest))
        want[workers] = {
            "step_ns": float(step),
            "data_ns": float(data),
            "compute_ns": float(rest),
            "best_ns": float(best),
            "saving_ns": float(step - best),
            "bound": "data" if share > rest else "compute",
        }
    check_rows("loader_overlap", want, ask("loader_overlap", workers="1,2,5"), lambda r: r["workers"])


CHECKS = {c.__name__[6:]: c for c in (check_ops, check_memory_by_op, check_memory_by_category, check_loader_overlap)}


@pytest.mark.parametrize("what", CHECKS)
@SETTINGS
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_columns(engine, what, content, spelling):
    with Written(engine, build(content), spelling) as ranks:
        for rank, ask in ranks:
            CHECKS[what](rank, ask)
