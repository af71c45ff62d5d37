"""Memory events as old, foreign and damaged traces have them: without addresses, totals, kind or number of a device,
with totals below zero, frees of what was never seen, addresses taken twice, several devices. Every question about
memory against a plain walk over the events."""

import random

import pytest
from hypothesis import given, settings, strategies as st

tg = pytest.importorskip("tachograph")
FEW = settings(max_examples=20, deadline=None)
KINDS = ((0, -1), (0, 0), (1, 0), (1, 1), (6, 0), (12, 0), (20, 1), (None, None), (1, None))
NAMES = {1: "GPU", 6: "type6:", 12: "XPU", 20: "type20:", -1: "type-1:"}  # traces of AMD say 6, HIP


def build(seed):
    r = random.Random(seed)
    told, pace, ts, events = r.choice(("all", "no address", "some", "no totals")), r.choice((0, 1, 5)), 1000, []
    for _ in range(r.randint(1, 40)):
        ts += r.randint(0, pace)
        kind, number = r.choice(KINDS)
        args = {"Bytes": r.choice((512, 1024, 77, 0, 4096)) * r.choice((1, -1))}
        args |= {key: value for key, value in (("Device Type", kind), ("Device Id", number)) if value is not None}
        if told == "all" or (told != "no address" and r.random() < 0.7):
            args["Addr"] = r.choice((0x7F00, 0x7F01, 0x7F02, 0x7FFFFFFFFFFFFF00, 0x10))
        if told != "no totals" and r.random() < 0.8:
            args["Total Allocated"] = r.choice((5, -5, 1000, 10**12))
            if r.random() < 0.7:
                args["Total Reserved"] = r.choice((2000, -1, 10**13))
        events.append(
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 1,
                "tid": r.randint(1, 4),
                "ts": ts,
                "args": args,
            }
        )
    ops = [
        (tid, r.choice(("aten::mm", "aten::empty")), 1000 + r.randint(0, 150), r.randint(1, 60))
        for tid in range(1, r.randint(1, 4))
    ]
    return events + [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": at, "dur": dur}
        for tid, name, at, dur in ops
    ]


def device_of(args):
    kind, number = args.get("Device Type", -1), args.get("Device Id", -1)
    return "CPU" if kind == 0 else f"{NAMES[kind]}{number}"


def by_device(events):
    """{device: [(ns, args, operator around it)]}, in order."""
    found = {}
    for e in events:
        if e["name"] == "[memory]":
            around = [
                o["name"]
                for o in events
                if o["ph"] == "X" and o["tid"] == e["tid"] and o["ts"] <= e["ts"] < o["ts"] + o["dur"]
            ]
            found.setdefault(device_of(e["args"]), []).append(
                (e["ts"] * 1000, e["args"], around[0] if around else None)
            )
    return found


def ask(trace, question, **args):
    try:
        return trace.ask(question, **args).to_dicts()
    except tg.TachographError as error:
        assert error.code == "NO_DATA"
        return []


def followed(events):
    """Blocks that addresses tell of: [bytes, made, freed, number of the event that took it]."""
    blocks, live, seen = [], {}, set()
    for number, (ts, args, _) in enumerate(events):
        addr, size = args.get("Addr"), args["Bytes"]
        if addr is None or size == 0:
            continue
        before = live.pop(addr, None)
        if before:
            before[2] = ts
        if size > 0:
            live[addr] = [size, ts, None, number]
            blocks.append(live[addr])
        elif not before and addr not in seen:
            blocks.append([-size, None, ts, None])
        seen.add(addr)
    return blocks


def alive(blocks, events, last):
    """(bytes, number) of the blocks in use after event number `last`."""
    return [(b[0], b[3]) for b in followed(events[: last + 1]) if b[3] is not None and b[2] is None]


@FEW
@given(st.integers(0, 2**32))
def test_totals_curve_and_operators(opened, seed):
    events = build(seed)
    trace, devices = opened({"traceEvents": events}), by_device(events)
    rows = {r["device"]: r for r in trace.ask("memory")}
    assert rows.keys() == devices.keys()
    for device, found in devices.items():
        sizes, row = [args["Bytes"] for _, args, _ in found], rows[device]
        sums = [0] + [sum(sizes[: k + 1]) for k in range(len(sizes))]
        assert (row["events"], row["allocations"], row["net_bytes"]) == (
            len(sizes),
            sum(s > 0 for s in sizes),
            sums[-1],
        )
        assert (row["alloc_bytes"], row["free_bytes"]) == (
            sum(s for s in sizes if s > 0),
            -sum(s for s in sizes if s < 0),
        )
        assert (
            row["peak_net_bytes"] == max(sums)
            and row["ts_ns"] == ([None] + [ts for ts, _, _ in found])[sums.index(max(sums))]
        )
        for column, key in (("peak_allocated_bytes", "Total Allocated"), ("peak_reserved_bytes", "Total Reserved")):
            assert row[column] == max((args[key] for _, args, _ in found if key in args), default=None)
        taken, paired, strangers = set(), 0, 0
        for _, args, _ in found:
            if "Addr" in args and args["Bytes"] > 0:
                taken.add(args["Addr"])
            elif "Addr" in args:
                paired, strangers = paired + (args["Addr"] in taken), strangers + (args["Addr"] not in taken)
                taken.discard(args["Addr"])
        assert (row["paired"], row["never_freed"], row["free_without_alloc"]) == (paired, len(taken), strangers)
    order = [(device_of(e["args"]), e["ts"] * 1000, e["args"]) for e in events if e["name"] == "[memory]"]
    assert [
        (r["device"], r["ts_ns"], r["peak_allocated_bytes"], r["peak_reserved_bytes"])
        for r in trace.ask("memory", by="time")
    ] == [(device, ts, args.get("Total Allocated"), args.get("Total Reserved")) for device, ts, args in order]
    want = {}
    for device, found in devices.items():
        for _, args, op in found:
            at = want.setdefault((device, op), [0, 0, 0, 0])
            for k, value in enumerate((1, args["Bytes"] > 0, max(args["Bytes"], 0), max(-args["Bytes"], 0))):
                at[k] += value
    assert {
        (r["device"], r["op"]): [r["events"], r["allocations"], r["alloc_bytes"], r["free_bytes"]]
        for r in trace.ask("memory", by="op")
    } == want
    assert {
        (r["device"], r["op"]): (r["self_net_bytes"], r["self_allocations"], r["self_alloc_bytes"])
        for r in ask(trace, "memory_ops")
    } == {key: (v[2] - v[3], v[1], v[2]) for key, v in want.items() if key[1]}


@FEW
@given(st.integers(0, 2**32))
def test_blocks_and_what_is_alive(opened, seed):
    events = build(seed)
    trace, devices = opened({"traceEvents": events}), by_device(events)
    told = {device: followed(found) for device, found in devices.items()}
    want = sorted(((device, *b[:3]) for device, blocks in told.items() for b in blocks), key=str)
    assert (
        sorted(((r["device"], r["bytes"], r["made_ns"], r["freed_ns"]) for r in ask(trace, "memory_blocks")), key=str)
        == want
    )
    levels = sorted(
        (device, ts, sum(b[0] for b in blocks if (b[1] is None or b[1] <= ts) and (b[2] is None or b[2] > ts)))
        for device, blocks in told.items()
        for ts in {t for b in blocks for t in b[1:3] if t is not None}
    )
    assert sorted((r["device"], r["ts_ns"], r["total"]) for r in ask(trace, "memory_timeline")) == levels
    if not any("Addr" in args for found in devices.values() for _, args, _ in found):
        assert ask(trace, "memory_state") == ask(trace, "memory_stacks") == []
        return
    end = sorted((device, *b) for device, found in devices.items() for b in alive(told, found, len(found)))
    assert sorted((r["device"], r["bytes"], r["event"]) for r in trace.ask("memory_state", at="end")) == end
    peak = []
    for device, found in devices.items():
        net = [sum(args["Bytes"] for _, args, _ in found[: k + 1]) for k in range(len(found))]
        said = [args.get("Total Allocated", net[k]) for k, (_, args, _) in enumerate(found)]
        peak += [(device, *b) for b in alive(told, found, said.index(max(said)))]
    assert sorted((r["device"], r["bytes"], r["event"]) for r in trace.ask("memory_state")) == sorted(peak)


@FEW
@given(st.integers(0, 2**32))
def test_counters(opened, seed):
    events = build(seed)
    rows = {
        (r["device"], r["metric"]): r for r in opened({"traceEvents": events}).ask("memory_stats") if r["pool"] == "all"
    }
    for device, found in by_device(events).items():
        live = {args["Addr"]: -args["Bytes"] for _, args, _ in reversed(found) if "Addr" in args and args["Bytes"]}
        live = {addr: size for addr, size in live.items() if size > 0}  # what was given back first was there before
        now = [len(live), sum(live.values())]
        came, most, went = list(now), list(now), 0
        for _, args, _ in found:
            addr, size = args.get("Addr"), args["Bytes"]
            gone = live.pop(addr, None) if addr is not None and size else -size if size < 0 else None
            if gone is not None:
                now, went = [now[0] - 1, now[1] - gone], went + 1
            if size > 0:
                now, came = [now[0] + 1, now[1] + size], [came[0] + 1, came[1] + size]
                if addr is not None:
                    live[addr] = size
            most = [max(pair) for pair in zip(most, now)]
        for metric in ("allocation", "active"):
            row = rows[device, metric]
            assert (row["current"], row["peak"], row["allocated"], row["freed"]) == (now[0], most[0], came[0], went)
        row = rows[device, "allocated_bytes"]
        assert (row["current"], row["peak"], row["allocated"]) == (now[1], most[1], came[1])


def test_a_block_without_a_free_ends_where_its_place_is_taken(opened):
    def event(ts, size):
        return {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "args": {"Bytes": size, "Addr": 64, "Device Type": 1, "Device Id": 0},
        }

    trace = opened({"traceEvents": [event(1, 512), event(2, 1024), event(3, -1024), event(4, -1024)]})
    row = trace.ask("memory_stacks").to_dicts()[0]
    assert (row["peak_bytes"], row["end_bytes"], row["alloc_bytes"], row["allocations"]) == (1024, 0, 1536, 2)
    rows = {r["metric"]: r for r in trace.ask("memory_stats") if r["pool"] == "all"}
    assert (rows["allocated_bytes"]["current"], rows["allocated_bytes"]["peak"], rows["allocation"]["freed"]) == (
        0,
        1024,
        2,
    )


def test_allocations_have_the_stacks_of_their_operators(opened):
    """main calls grow twice and look once: 100 + 50 bytes are taken in grow, 30 in look, 7 outside of any operator."""

    def piece(cat, name, ts, dur, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}

    def memory(ts, size, addr):
        args = {"Bytes": size, "Addr": addr, "Device Type": 0, "Device Id": -1}
        return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}

    trace = opened({"traceEvents": [
        piece("python_function", "train.py(9): main", 0, 100),
        *(piece("python_function", "train.py(3): grow", ts, 20) for ts in (10, 40)),
        piece("python_function", "train.py(6): look", 70, 20),
        *(piece("cpu_op", "aten::empty", ts, 10) for ts in (12, 42, 72)),
        memory(13, 100, 1), memory(43, 50, 2), memory(73, 30, 3), memory(75, -30, 3), memory(95, 7, 4),
    ]})  # fmt: skip
    rows = trace.ask("memory_stacks")
    assert [(r["stack"], r["alloc_bytes"], r["allocations"], r["peak_bytes"], r["end_bytes"]) for r in rows] == [
        ("train.py(3): grow;train.py(9): main", 150, 2, 150, 150),
        ("train.py(6): look;train.py(9): main", 30, 1, 30, 0),
        (None, 7, 1, 0, 7),
    ]
    assert not rows.notes
