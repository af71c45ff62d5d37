"""Columns and ways to ask that the random tests of whole questions leave out, each against a slow count over the events
of random traces: the call that launched work, the work around a gap, work by stream, and device time inside annotations
and frames."""

import collections

import pytest
import reference
import traces
from hypothesis import given, strategies as st
from reference import DEVICE, arg, quantile, slices, track_of
from test_property import CONTENT, SETTINGS, Written, check_rows


def device_work(rank):
    return [e for e in slices(rank.events) if e.cat in DEVICE]


def launched_by(rank):
    """[(device work, its host call, the operator behind that)]"""
    nodes, out = reference.op_forest(rank.events), []
    for work in device_work(rank):
        call = reference.host_call(rank.events, work)
        node = reference.owner(nodes, call)[1] if call is not None else None
        out.append((work, call, node.event.name if node is not None else ""))
    return out


def bag(rows):
    return collections.Counter(map(repr, rows))


def check_launches_by_event(rank, ask):
    want = [
        (
            work.name,
            call.name if call else "",
            op,
            int(call is not None),
            call.dur if call else 0,
            max(0, work.ts - call.end) if call else None,
        )
        for work, call, op in launched_by(rank)
    ]
    rows = ask("launches", by="event")
    assert bag(want) == bag(
        (r["kernel"], r["call"] or "", r["op"] or "", r["with_host_call"], r["call_ns"] or 0, r["delay_max_ns"])
        for r in rows
    )


def check_launches_by_call(rank, ask):
    groups = reference.group_by([(w, c) for w, c, _ in launched_by(rank)], lambda pair: pair[1].name if pair[1] else "")
    want = {}
    for name, pairs in groups.items():
        delays = [max(0, w.ts - c.end) for w, c in pairs if c]
        want[name] = {
            "device_events": len(pairs),
            "call_ns": sum({c.i: c.dur for _, c in pairs if c}.values()),
            "delay_max_ns": max(delays, default=None),
            "delay_p50_ns": quantile(delays, reference.fractions.Fraction(1, 2)) if delays else None,
        }
    check_rows("launches", want, ask("launches", by="call"), lambda r: r["call"] or "")


def check_gaps(rank, ask):
    """Where several pieces of work end or begin at once, any of them may be named."""
    found, rows = launched_by(rank), ask("gaps")
    for r in rows:
        end, on_device = r["start_ns"] + r["dur_ns"], [x for x in found if arg(x[0], "device") == r["device"]]
        assert r["before"] in {w.name for w, _, _ in on_device if w.end == r["start_ns"]}
        after = [x for x in on_device if x[0].ts == end]
        assert (r["after"], r["op"] or "") in {(w.name, op) for w, _, op in after}
        kinds = {
            "not queued" if c is None or c.end > r["start_ns"] else "queued"
            for w, c, _ in after
            if w.name == r["after"]
        }
        assert ("queued" if r["cause"] == "queued" else "not queued") in kinds
        if r["cause"] == "none":  # its launch is not known, or the host was silent for a millisecond
            assert r["dur_ns"] >= 10**6 or any(c is None for w, c, _ in after if w.name == r["after"])
    want = {}
    for r in rows:
        row = want.setdefault((r["device"], r["cause"]), {"dur_ns": 0, "count": 0})
        row["dur_ns"] += r["dur_ns"]
        row["count"] += 1
    check_rows("gaps", want, ask("gaps", by="cause"), lambda r: (r["device"], r["cause"]))


def check_kernels_by_stream(rank, ask):
    """A kernel that states no occupancy counts as 0 in the mean, as with the plugin, and not at all in what is low; one
    that could not be estimated in neither."""
    want, said = {}, reference.OCCUPANCY
    for (device, stream, name, cat), work in reference.group_by(
        device_work(rank), lambda e: (arg(e, "device"), arg(e, "stream"), e.name, e.cat)
    ).items():
        stated = [e for e in work if arg(e, said) is not None and reference.is_estimated(e)]
        time, area = sum(e.dur for e in stated), sum(e.dur * arg(e, said) for e in stated)
        low = 1.0 * area / time < 30 if time and reference.TYPE_OF.get(name) == "COMPUTATION" else None
        want[("device %d stream %d" % (device, stream), cat, name)] = {
            "calls": len(work),
            "total_ns": sum(e.dur for e in work),
            "low_occupancy": low,
            "max_ns": max(e.dur for e in work),
            "min_ns": min(e.dur for e in work),
        }
    check_rows("kernels", want, ask("kernels", by="stream"), lambda r: (r["group"], r["category"], r["name"]))


def check_idle_intervals(rank, ask):
    """A gap of a stream lies between what ended last and what began next; what it is called needs the launch."""
    want = []
    for (device, stream), work in reference.group_by(
        launched_by(rank), lambda x: (arg(x[0], "device"), arg(x[0], "stream"))
    ).items():
        work.sort(key=lambda x: x[0].ts)
        for k in range(1, len(work)):
            end = max(w.end for w, _, _ in work[:k])
            if work[k][0].ts > end:
                same = [x for x in work if x[0].ts == work[k][0].ts]
                launches = {c.ts if c else None for _, c, _ in same}
                gap = work[k][0].ts - end
                causes = {
                    "host_wait" if c is not None and c > end else "kernel_wait" if gap < 30_000 else "other"
                    for c in launches
                }
                want.append(
                    (
                        (device, stream, end, gap),
                        {w.name for w, _, _ in work[:k] if w.end == end},
                        {x[0].name for x in same},
                        causes,
                    )
                )
    rows = {(r["device"], r["stream"], r["start_ns"], r["idle_ns"]): r for r in ask("idle", by="interval")}
    assert rows.keys() == {key for key, *_ in want}
    for key, before, after, causes in want:
        assert rows[key]["before"] in before and rows[key]["after"] in after and rows[key]["cause"] in causes


def check_annotations(rank, ask):
    """What a thread without annotations launches, as autograd's does, counts for those of all others."""
    found, sums = [(w, c) for w, c, _ in launched_by(rank) if c is not None], collections.Counter()
    marked = {track_of(e) for e in slices(rank.events) if e.cat == "user_annotation"}
    for e in slices(rank.events):
        if e.cat == "user_annotation":
            sums[e.name] += sum(
                w.dur
                for w, c in found
                if e.ts <= c.ts < e.end and (track_of(c) == track_of(e) or track_of(c) not in marked)
            )
    assert sums == {r["name"]: r["device_ns"] for r in ask("annotations") if r["side"] == "cpu"}


def check_stacks(rank, ask):
    if not reference.stacks_by_function(rank.events):
        return
    names = {e.name for e in slices(rank.events) if e.cat == "python_function"}
    total, own, found = (
        collections.Counter(dict.fromkeys(names, 0)),
        collections.Counter(dict.fromkeys(names, 0)),
        launched_by(rank),
    )
    for track in reference.group_by([e for e in slices(rank.events) if e.cat == "python_function"], track_of).values():
        up = reference.parents(track)
        for work, call, _ in found:
            chain, p = [], None
            if call is not None and track_of(call) == track_of(track[0]):
                p = reference.parents(track + [call])[call.i]
            while p is not None:
                chain, p = chain + [p.name], up[p.i]
            total.update(dict.fromkeys(chain, work.dur))
            own.update(dict.fromkeys(chain[:1], work.dur))
    rows = {r["name"]: (r["device_ns"], r["self_device_ns"]) for r in ask("stacks", by="function")}
    assert rows == {name: (total[name], own[name]) for name in names}


CHECKS = {
    c.__name__[6:]: c
    for c in (
        check_launches_by_event,
        check_launches_by_call,
        check_gaps,
        check_kernels_by_stream,
        check_idle_intervals,
        check_annotations,
        check_stacks,
    )
}


@pytest.mark.parametrize("what", CHECKS)
@SETTINGS
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_columns(engine, what, content, spelling):
    with Written(engine, traces.build(**{**content, "gpu": True}), spelling) as ranks:
        for rank, ask in ranks:
            CHECKS[what](rank, ask)


@SETTINGS
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_spread(engine, content, spelling):
    """Between ranks, by the name of device work: a rank without any of a name does not count as the least."""
    with Written(engine, traces.build(**{**content, "gpu": True, "ranks": 3}), spelling) as ranks:
        sums = collections.defaultdict(dict)
        for rank, _ in ranks:
            for name, work in reference.group_by(device_work(rank), lambda e: e.name).items():
                sums[name][rank.number] = [e.dur for e in work]
        path, got = ranks[0][1].path, {}
        if sums:
            got = {r["name"]: r for r in engine.ask(path, "spread")}
        assert got.keys() == sums.keys()
        for name, of_rank in sums.items():
            totals, r = {k: sum(v) for k, v in of_rank.items()}, got[name]
            least, most = min(totals.values()), max(totals.values())
            assert (r["ranks"], r["calls"], r["total_ns"]) == (
                len(totals),
                sum(map(len, of_rank.values())),
                sum(totals.values()),
            )
            assert (r["least_ns"], r["most_ns"], r["spread_ns"]) == (least, most, most - least)
            assert (totals[r["least_rank"]], totals[r["most_rank"]]) == (least, most) and r["mean_ns"] == pytest.approx(
                sum(totals.values()) / len(totals)
            )
