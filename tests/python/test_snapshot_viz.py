"""Snapshots of a simulated allocator against torch's own _memory_viz, and against what the allocator had in use after
each event."""

import io
import pickle
import random
import re
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")
import tachograph as tg
from allocator import Allocator, snapshot_of
from torch.cuda import _memory_viz as viz

runs = settings(max_examples=8, deadline=None)


def opened(content, protocol=4):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        return tg.open(path)


def made(seed, before=30, events=160):
    draw = random.Random(seed)
    allocators = [Allocator(device, draw).run(before, events) for device in (0, 2)]
    return allocators, snapshot_of(allocators, 3)


def text(frames):
    return ";".join(f"{f['filename']}({f['line']}): {f['name']}" for f in frames) if frames else None


@runs
@given(st.integers(0, 1 << 30))
def test_segments_as_torch_sums_them(seed):
    _, snapshot = made(seed)
    trace = opened(snapshot)
    said = viz.segsum(snapshot)  # refuses segments that do not add up
    rows, blocks = trace.ask("segments").to_dicts(), trace.ask("segments", by="block").to_dicts()
    total, used = (
        sum(r["total_bytes"] for r in rows),
        sum(b["requested_bytes"] for b in blocks if b["kind"] == "active_allocated"),
    )
    external, internal = (
        sum(r["free_bytes"] for r in rows),
        sum(b["total_bytes"] - b["requested_bytes"] for b in blocks if b["kind"] == "active_allocated"),
    )
    pending = sum(b["total_bytes"] for b in blocks if b["kind"] == "active_pending_free")  # which torch counts as free
    assert f"segments: {len(rows)}\ntotal_reserved: {viz.Bytes(total)}\ntotal_allocated: {viz.Bytes(used)}\n" in said
    assert f"total_free: {viz._report_free(external + pending, internal)}\n" in said
    assert (
        sum(r["allocated_bytes"] for r in rows) == used + internal
        and sum(r["active_bytes"] for r in rows) == used + internal + pending
    )
    pools = Counter()
    for s in snapshot["segments"]:
        pools[(s["device"], str(s["segment_pool_id"]), s["segment_type"])] += s["total_size"]
    assert (
        Counter(
            {(int(r["device"][3:]), r["pool"], r["kind"]): r["total_bytes"] for r in trace.ask("segments", by="pool")}
        )
        == pools
    )


@runs
@given(st.integers(0, 1 << 30))
def test_bytes_by_stack_as_in_torchs_flame_graph(seed):
    _, snapshot = made(seed)
    lines = viz.memory(snapshot, format_flamegraph=str)
    theirs = Counter()
    for line in lines.splitlines():
        stack, size = line.rsplit(" ", 1)
        _, state, frames = stack.split(";", 2)
        theirs[state, frames] += int(size)
    ours = Counter()
    for block in opened(snapshot).ask("segments", by="block").to_dicts():
        frames = (
            [re.fullmatch(r"(.*)\((\d+)\): (.*)", f).groups() for f in reversed((block["stack"] or "").split(";"))]
            if block["stack"]
            else []
        )
        asked = block["requested_bytes"]
        ours[
            block["kind"],
            ";".join(f"{file.split('/')[-1]}:{line}:{name}" for file, line, name in frames) or "<non-python>",
        ] += asked
        ours[block["kind"], "<gaps>"] += block["total_bytes"] - asked
    assert +ours == +theirs


@runs
@given(st.integers(0, 1 << 30))
def test_state_after_any_event_is_the_allocators(seed):
    allocators, snapshot = made(seed)
    trace = opened(snapshot)
    for a in allocators:
        device = f"GPU{a.device}"
        history = trace.ask("memory_history", device=device).to_dicts()
        present = [r for r in history if r["action"] == "present"]
        assert {int(r["address"], 16): r["bytes"] for r in present} == a.at_start
        events = history[len(present) :]
        assert [r["action"].replace("free_requested", "free") for r in events] == [
            e["action"].replace("free_requested", "free") for e in a.trace
        ]
        assert [r["allocated_bytes"] for r in events if r["allocated_bytes"] is not None] == [
            sum(s.values()) for s, e in zip(a.states, a.trace) if e["action"] in ("alloc", "free_requested")
        ]
        for at in random.Random(seed).sample(range(len(events)), 5):
            state = trace.ask("memory_state", device=device, at=str(len(present) + at)).to_dicts()
            assert {int(r["address"], 16): r["bytes"] for r in state} == a.states[at]
        peak = max([sum(a.at_start.values()), *(sum(s.values()) for s in a.states)])
        (memory,) = trace.ask("memory", device=device)
        assert (memory["peak_net_bytes"], memory["net_bytes"]) == (peak, sum(a.live.values()))
        end = trace.ask("memory_state", device=device, at="end").to_dicts()
        assert {int(r["address"], 16): r["bytes"] for r in end} == a.live


@pytest.mark.skipif(not hasattr(viz, "filter_alloc_free_pairs"), reason="this torch filters no pairs")
@runs
@given(st.integers(0, 1 << 30))
def test_what_is_never_freed_is_what_torch_leaves_after_filtering(seed):
    allocators, snapshot = made(seed, before=0)
    trace = opened(snapshot)
    left = pickle.loads(pickle.dumps(snapshot))
    with redirect_stdout(io.StringIO()):
        viz.filter_alloc_free_pairs(left)
    for a in allocators:
        theirs = Counter((e["addr"], e["size"]) for e in left["device_traces"][a.device] if e["action"] == "alloc")
        assert (
            Counter(
                (int(r["address"], 16), r["bytes"])
                for r in trace.ask("memory_state", device=f"GPU{a.device}", at="end")
            )
            == theirs
        )


@runs
@given(st.integers(0, 1 << 30))
def test_reserved_bytes_follow_the_segments(seed):
    allocators, snapshot = made(seed)
    trace = opened(snapshot)
    for a in allocators:
        now = sum(s.size for s in a.segments)
        expected = []
        for e in reversed(a.trace):
            expected.append(now)
            now -= {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}.get(
                e["action"], 0
            ) * e["size"]
        rows = [r for r in trace.ask("memory_history", device=f"GPU{a.device}") if r["action"] != "present"]
        assert [
            (r["action"], r["reserved_bytes"])
            for r in rows
            if r["reserved_bytes"] is not None and r["action"] != "free"
        ] == [
            (e["action"], b)
            for e, b in zip(a.trace, reversed(expected))
            if e["action"] not in ("oom", "snapshot", "free_requested")
        ]


def statistics(trace, device):
    return {
        (r["metric"], r["pool"]): [r["current"], r["peak"], r["allocated"], r["freed"]]
        for r in trace.ask("memory_stats", device=f"GPU{device}")
    }


@runs
@given(st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_statistics_are_those_the_allocator_keeps(seed, splits_all, divides):
    """All of them, but for what a block that is gone took beyond what was asked for: rounded up, unless more than that
    was left whole."""
    draw = random.Random(seed)
    divisions = [draw.choice((0, 1, 2, 4, 8, 16)) for _ in range(16)] if divides else [0] * 16
    a = Allocator(1, draw, splits_all=splits_all, divisions=divisions).run(40, 160)
    ours = statistics(opened(snapshot_of([a], 2)), 1)
    for (metric, pool), figures in a.stats.items():
        if metric in ("allocated_bytes", "active_bytes") and not splits_all:
            assert ours[metric, pool][0] == figures[0] and all(x <= y for x, y in zip(ours[metric, pool], figures))
        else:
            assert (metric, pool, ours[metric, pool]) == (metric, pool, figures)
    for k, metric in enumerate(("inactive_split", "inactive_split_bytes")):
        by_pool = [a.inactive_split(small)[k] for small in (False, True)]
        assert [ours[metric, pool] for pool in ("large_pool", "small_pool", "all")] == [
            [n, None, None, None] for n in (*by_pool, sum(by_pool))
        ]
    actions = Counter(e["action"] for e in a.trace)
    assert ours["num_ooms", "all"][0] == actions["oom"]
    assert ours["num_device_alloc", "all"][0] == actions["segment_alloc"] + actions["segment_map"]
    assert ours["num_device_free", "all"][0] == actions["segment_free"] + actions["segment_unmap"]


@pytest.mark.parametrize("times", [1, 1 << 20])
def test_the_summary_is_torchs(monkeypatch, times):
    """torch.cuda.memory_summary() of the same figures, line by line."""
    snapshot = made(7)[1]
    for entries in snapshot["device_traces"]:
        for e in entries:
            e["size"] *= times
    trace = opened(snapshot)
    figures = {
        f"{metric}.{pool}.{stat}": n or 0
        for (metric, pool), row in statistics(trace, 0).items()
        for stat, n in zip(("current", "peak", "allocated", "freed"), row)
    }
    for name in ("oversize_allocations", "oversize_segments"):
        figures.update({f"{name}.{stat}": 0 for stat in ("current", "peak", "allocated", "freed")})
    monkeypatch.setattr(
        torch.cuda.memory, "memory_stats", lambda device=None: {**figures, "num_ooms": 0, "num_alloc_retries": 0}
    )
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in torch.cuda.memory.memory_summary(0).splitlines()
        if line.count("|") == 6
    ]
    theirs = [
        [re.sub(r"\s+", " ", cell) for cell in row]
        for row in lines
        if row[0] and row[0] != "Metric" and "versize" not in row[0]
    ]
    ours = [
        [
            r["metric"].strip(),
            *(
                ("0 B" if "memory" in block else "0") if r[c] is None else r[c]
                for c in ("current", "peak", "allocated", "freed")
            ),
        ]
        for r in trace.ask("memory_summary", device="GPU0", pools=1)
        for block in [r["metric"]]
    ]
    assert [row for row in ours if "Non-releasable" not in row[0]][:12] == [
        row for row in theirs if "Non-releasable" not in row[0]
    ][:12]
    assert len(ours) == len(theirs) == 27


@runs
@given(st.integers(0, 1 << 30))
def test_allocations_by_stack_add_up_to_the_history(seed):
    allocators, snapshot = made(seed)
    trace = opened(snapshot)
    for a in allocators:
        rows = trace.ask("memory_stacks", device=f"GPU{a.device}").to_dicts()
        present = Counter({None: 0})
        for r in trace.ask("memory_history", device=f"GPU{a.device}", where="action == 'present'"):
            present[r["stack"]] += r["bytes"]
        expected = Counter(present)
        for e in a.trace:
            expected[text(e.get("frames"))] += e["size"] if e["action"] == "alloc" else 0
        assert +Counter({r["stack"]: r["alloc_bytes"] for r in rows}) == +expected
