"""Blocks of memory against looking at everything (reference_memory.py), and what must not change an answer."""

import gzip
import json

import pytest
import tachograph as tg
from hypothesis import given, settings, strategies as st
from reference_memory import Story

FEW = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 1 << 32)


def ns(us):
    return None if us is None else round(us * 1000)


def rows(trace, question="memory_blocks", columns=("bytes", "made_ns", "freed_ns", "category", "module", "op"), **args):
    return sorted(zip(*(trace.ask(question, **args)[c] for c in columns)), key=str)


@FEW
@given(SEEDS)
def test_blocks_and_what_they_were_for(opened, seed):
    story = Story(seed)
    want = sorted(((size, ns(made), ns(freed), *rest) for size, made, freed, *rest in story.blocks()), key=str)
    assert rows(opened(story.trace())) == want


@FEW
@given(SEEDS)
def test_timeline_and_peak(opened, seed):
    story = Story(seed)
    trace, levels = opened(story.trace()), story.levels()
    got = trace.ask("memory_timeline").to_dicts()
    assert [row["ts_ns"] for row in got] == [ns(ts) for ts, _ in levels]
    for row, (_, level) in zip(got, levels):
        assert row["total"] == sum(level.values())
        assert {k: v for k, v in level.items() if v} == {
            k: row[k] for k in row if k not in ("rank", "device", "ts_ns", "total") and row[k]
        }
    totals = [sum(level.values()) for _, level in levels]
    peak = trace.ask("memory_timeline", by="peak").to_dicts()[0]
    assert (peak["total"], peak["ts_ns"]) == (max(totals), ns(levels[totals.index(max(totals))][0]))
    assert trace.ask("memory_timeline", by="final")["total"][0] == totals[-1]


@FEW
@given(SEEDS)
def test_groups_add_up(opened, seed):
    trace = opened(Story(seed).trace())
    blocks = trace.ask("memory_blocks").to_dicts()
    for by, key in (("category", "category"), ("op", "op"), ("module", "module")):
        want = {}
        for b in blocks:
            at = want.setdefault((b["category"], b[key]), [0, 0, 0])
            at[0], at[1], at[2] = at[0] + 1, at[1] + b["bytes"], at[2] + b["bytes_at_peak"]
        groups = trace.ask("memory_blocks", by=by).to_dicts()
        assert {(g["category"], g[key]): [g["blocks"], g["bytes"], g["bytes_at_peak"]] for g in groups} == want
    assert (
        sum(b["bytes_at_peak"] for b in blocks)
        == sum(trace.ask("memory", by="category")["net_bytes"])
        == sum(trace.ask("memory", by="peak")["net_bytes"])
    )


@FEW
@given(SEEDS)
def test_leaks(opened, seed):
    story = Story(seed)
    for k in range(5):  # one that is sure: in the optimizer
        story.events += [(1, k * 1000 + 1760.125, 333, 0xA00000 + k)]
    story.events.sort(key=lambda e: e[1])
    got = {
        (op, module): (blocks, size)
        for op, module, blocks, size in rows(opened(story.trace()), "leaks", ("op", "module", "blocks", "bytes"))
    }
    assert got == story.leaks() and got


@FEW
@given(SEEDS)
def test_what_must_not_change_an_answer(opened, seed):
    story = Story(seed)
    want = rows(opened(story.trace()))
    moved = rows(opened(story.trace(shift=7000)))
    assert moved == sorted(
        ((b, made and made + 7_000_000, freed and freed + 7_000_000, *r) for b, made, freed, *r in want), key=str
    )
    assert rows(opened(story.trace(order=seed))) == want
    assert rows(opened(story.trace(tracks={1: 500, 2: 3}))) == want
    doubled = rows(opened(story.trace(scale=2)))
    assert doubled == sorted(((b, made and made * 2, freed and freed * 2, *r) for b, made, freed, *r in want), key=str)


def test_native_files_answer_the_same(opened, tmp_path):
    trace = opened(Story(3).trace())
    trace.save(tmp_path / "t.tacho")
    again = tg.open(tmp_path / "t.tacho")
    for question in ("memory_blocks", "memory_timeline", "leaks", "checkpoint"):
        assert again.ask(question).to_dicts() == trace.ask(question).to_dicts()


# ---- layers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, layer",
    [
        ("encoder.layers.3.linear1", "encoder.layers.3"),
        ("0", "0"),
        ("3.1.2", "3"),
        ("layer1.0.conv1", "layer1.0"),
        ("head", "head"),
        ("decoder.norm", "decoder"),
        ("Net_0.Block_1.Linear_2", "Net_0.Block_1"),
        ("Net_0", "Net_0"),
        ("layer_norm.weight_0", "layer_norm"),
    ],
)
def test_layer_of_a_path(opened, path, layer):
    at = {"pid": 1, "tid": 1}
    trace = opened(
        {
            "traceEvents": [
                {
                    "ph": "X",
                    "cat": "python_function",
                    "name": "nn.Module: X_0",
                    "ts": 0,
                    "dur": 100,
                    "args": {"Module path": path},
                    **at,
                },
                {"ph": "X", "cat": "cpu_op", "name": "aten::mul", "ts": 5, "dur": 50, **at},
                {
                    "ph": "i",
                    "s": "t",
                    "cat": "cpu_instant_event",
                    "name": "[memory]",
                    "ts": 10,
                    "args": {"Bytes": 8, "Addr": 64, "Device Type": 0},
                    **at,
                },
            ]
        }
    )
    assert list(trace.ask("memory_blocks", by="layer")["module"]) == [layer]


# ---- the allocator of a device -----------------------------------------------------------------------------


@FEW
@given(
    st.lists(
        st.tuples(
            st.integers(1, 50), st.integers(-1000, 1000).filter(bool), st.integers(0, 4000), st.integers(0, 3000)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_fragmentation(opened, steps):
    events, now, told = [], 0, []
    for gap, size, allocated, unused in steps:
        now += gap
        told.append((now, size, allocated + unused, allocated))
        events.append(
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": now,
                "args": {
                    "Bytes": size,
                    "Addr": now,
                    "Device Type": 1,
                    "Device Id": 0,
                    "Total Allocated": allocated,
                    "Total Reserved": allocated + unused,
                },
            }
        )
    told = [t for t in told if t[2] > 0]
    if not told:
        return
    row = opened({"traceEvents": events}).ask("fragmentation").to_dicts()[0]
    most = max(told, key=lambda t: t[2] - t[3])
    top = max(told, key=lambda t: t[2])
    spans = [(b[0] - a[0], a) for a, b in zip(told, told[1:])]
    assert (row["reserved"], row["allocated"], row["unused"]) == (top[2], top[3], top[2] - top[3])
    assert (row["most_unused"], row["ts_ns"], row["peak_allocated"]) == (
        most[2] - most[3],
        most[0] * 1000,
        max(t[3] for t in told),
    )
    assert row["grown"] == sum(b[1] > 0 and b[2] > a[2] and a[2] - a[3] >= b[1] for a, b in zip(told, told[1:]))
    if spans:
        assert row["mean_unused_percent"] == pytest.approx(
            100 * sum(d * (a[2] - a[3]) for d, a in spans) / sum(d * a[2] for d, a in spans), rel=1e-12
        )


# ---- PyTorch's raw memory timeline -------------------------------------------------------------------------

KINDS = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown")


@FEW
@given(
    st.lists(
        st.tuples(st.integers(-1, 5), st.integers(1, 4), st.integers(-(10**9), 10**9), st.integers(0, 7)),
        min_size=1,
        max_size=60,
    ),
    st.booleans(),
)
def test_raw_timeline(tmp_path_factory, changes, packed):
    changes = sorted(([-1 if t < 0 else t * 10 + 5, a, n, c] for t, a, n, c in changes), key=lambda e: e[0])
    path = tmp_path_factory.mktemp("raw") / ("m.raw.json.gz" if packed else "m.json")
    (gzip.open(path, "wt") if packed else open(path, "w")).write(json.dumps(changes))
    first, levels, now = next((e[0] for e in changes if e[0] > 0), None), [], dict.fromkeys(KINDS, 0)
    for t, _, n, c in changes:
        t = first if t == -1 else t
        now = {**now, KINDS[c]: now[KINDS[c]] + n}
        levels = [*(level for level in levels if level[0] != t), (t, now)]
    trace = tg.open(path)
    assert [(r["ts_ns"], {k: r[k] for k in KINDS}) for r in trace.ask("memory_timeline").to_dicts()] == levels
    assert len(trace.ask("events", by="mark")) == len(changes)
    trace.save(path.with_suffix(".tacho"))
    assert (
        tg.open(path.with_suffix(".tacho")).ask("memory_timeline").to_dicts() == trace.ask("memory_timeline").to_dicts()
    )


def test_raw_timeline_that_is_cut_or_damaged(tmp_path):
    path, text = tmp_path / "m.json", "[[1, 2, 30, 4], [2, 2, 5, 0], [3, 4, -30, 4]]"
    for end in range(len(text)):
        path.write_text(text[:end])
        whole = text[:end].count("]")
        if whole:
            assert len(tg.open(path).ask("events", by="mark")) == whole, end
    path.write_text(
        "[[1, 2, 30, 4], [2, 2, 1e3, 0], [3, 2], [4, 2, 7, 8], [99999999999999999999, 2, 7, 1], [5, 2, 9, 1]]"
    )
    trace = tg.open(path)
    assert list(trace.ask("memory_timeline")["total"]) == [30, 39]
    assert [(r["loss"], r["count"]) for r in trace.ask("losses").to_dicts() if r["count"]] == [("skipped_syntax", 4)]


def test_a_folder_passes_a_timeline_over(tmp_path):
    (tmp_path / "rank0.json").write_text(json.dumps(Story(1).trace()))
    (tmp_path / "memory.raw.json").write_text("[[1, 2, 30, 4]]")
    trace = tg.open(tmp_path)
    assert sum(r["count"] for r in trace.ask("losses").to_dicts() if r["loss"] == "skipped_file") == 1
    assert "[memory change]" not in set(trace.ask("events", by="mark")["name"])


# ---- missing data is reported ------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["memory_blocks", "memory_timeline", "leaks", "checkpoint", "fragmentation"])
def test_a_trace_without_memory(opened, question):
    trace = opened(
        {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "ts": 5, "dur": 50, "pid": 1, "tid": 1}]}
    )
    with pytest.raises(tg.TachographError) as refusal:
        trace.ask(question)
    assert refusal.value.code == "NO_DATA" and "profile_memory=True" in str(refusal.value)


def test_what_is_inferred_is_said(opened):
    story = Story(5)
    assert not any("inferred" in note for note in opened(story.trace()).ask("memory_blocks").notes)
    story.tensors.clear()
    assert any("inferred" in note for note in opened(story.trace()).ask("memory_blocks").notes)
