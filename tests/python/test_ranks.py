"""Many ranks: matching, clocks, waiting and stragglers against reference_ranks.py on random runs, by hand on small
ones; what must not change when a clock is shifted or ranks are summed up one by one; and runs that are not whole."""

import collections
import copy
import json
import math
import random
import statistics

import pytest
import random_ranks
import reference_ranks as reference
import traces
from hypothesis import HealthCheck, given, settings, strategies as st
from rank_runs import KERNEL, Asker, collective, make_run, simple_run, write
from reference import slices as reference_slices

SETTINGS = settings(max_examples=settings.default.max_examples, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="session")
def ask(tachograph_path):
    return Asker(tachograph_path)


# ---- against the reference ---------------------------------------------------------------------------------


def compare_parts(ask, folder, run):
    want = reference.parts(run)
    got = ask(folder, "collectives", by="part")
    key = lambda p: (p["rank"], p["start"], p["total"], p["kind"])
    want.sort(key=key)
    got.sort(key=lambda r: (r["rank"], r["start_ns"], r["total_ns"], r["kind"]))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g["rank"], g["kind"], g["group"], g["start_ns"], g["total_ns"]) == (
            w["rank"],
            w["kind"],
            w["group"],
            w["start"],
            w["total"],
        )
        assert (g["bytes"], g["step"]) == (w["bytes"], "" if w["step"] is None else str(w["step"]))
        seen = (g["skew_ns"], g["wait_ns"], g["transfer_ns"], g["last_rank"], g["last_calls"])
        assert seen == (
            (w["skew"], w["wait"], w["transfer"], w["last"], int(w["is_last"])) if w["shared"] else (None,) * 5
        )
    return want


def compare_clocks(ask, folder, run):
    known = reference.clocks(run, reference.match(run))
    if not known:
        assert ask.run("ask", folder, "clocks").returncode == 3
        return
    for row, (i, rank) in zip(ask(folder, "clocks"), enumerate(run)):
        clock = known.get(i)
        assert row["rank"] == rank["number"]
        assert row["offset_ns"] == (clock.offset if clock else None)
        assert row["collectives"] == (clock.count if clock else 0)
        if clock and clock.count:
            assert (row["low_ns"], row["high_ns"]) == (clock.low, clock.high) and row["drift_ppm"] == pytest.approx(
                1e6 * clock.gain, rel=1e-9
            )


def compare_sums(ask, folder, run, want):
    rows = {(r["kind"], r["group"]): r for r in ask(folder, "collectives", by="group")}
    kinds = {r["kind"]: r for r in ask(folder, "collectives", by="kind")}
    for kind in {kind for kind, _ in rows} | set(kinds):
        mine = [r for r in rows.values() if r["kind"] == kind]
        assert kinds[kind]["group"] == (mine[0]["group"] if len(mine) == 1 else "")
        for column, how in (
            ("calls", sum),
            ("bytes", sum),
            ("missing", sum),
            ("total_ns", sum),
            ("wait_ns", sum),
            ("transfer_ns", sum),
            ("skew_ns", max),
            ("start_ns", min),
            ("ranks", max),
        ):
            known = [r[column] for r in mine if r[column] is not None]
            assert kinds[kind][column] == (how(known) if known else None), column
    for family in {(w["kind"], w["group"]) for w in want}:
        mine = [w for w in want if (w["kind"], w["group"]) == family]
        waiting = [w for w in mine if w["shared"]]
        row = rows.pop(family)
        assert row["calls"] == len({w["key"] for w in mine}) and row["total_ns"] == sum(w["total"] for w in mine)
        assert row["wait_ns"] == (sum(w["wait"] for w in waiting) if waiting else None)
        assert row["transfer_ns"] == (sum(w["transfer"] for w in waiting) if waiting else None)
    assert not rows
    whole = collections.defaultdict(
        set
    )  # steps at the end with missing device work do not count; the question steps leaves them out, too
    for row in ask(folder, "ranks", by="step"):
        whole[row["rank"]].add(int(row["step"]))
    common = set.intersection(*(whole[r["number"]] for r in run if r["steps"]))
    if not common:
        return
    windows = collections.defaultdict(dict)
    for row in ask(folder, "steps"):
        windows[row["rank"]][int(row["step"])] = (row["start_ns"], row["start_ns"] + row["total_ns"])
    compare_moments(ask, folder, want, windows, common)


def compare_moments(ask, folder, want, windows, common):
    """wait, transfer and what coming last costs, a step and all together."""
    sums = collections.defaultdict(collections.Counter)
    for row in ask(folder, "ranks", by="step"):
        rank, step = row["rank"], int(row["step"])
        expected = reference.moments([w for w in want if w["rank"] == rank], *windows[rank][step])
        if step in common:
            sums[rank].update(expected)
        if row["wait_ns"] is not None:
            assert (row["wait_ns"], row["transfer_ns"]) == (expected["wait"], expected["transfer"])
            assert row["wait_ns"] + row["transfer_ns"] <= row["communication_ns"] <= row["step_ns"]
            assert row["straggler_pct"] == pytest.approx(100 * expected["late"] / row["step_ns"], rel=1e-12)
    for row in ask(folder, "stragglers"):
        late = sums[row["rank"]]["late"] / len(common)
        assert row["late_ns"] is None or row["late_ns"] == pytest.approx(late, rel=1e-12)
        assert row["straggler_pct"] is None or row["straggler_pct"] <= 100


@SETTINGS
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.sampled_from([("",), ("0", "1")]), st.booleans())
def test_random_runs_equal_the_reference(ask, tmp_path_factory, seed, numbered, whole, groups, device):
    groups = groups if device else ("",)  # gloo's spans do not say their group
    run = make_run(seed, numbered and device, whole, groups)
    if not any(r["collectives"] for r in run):
        return
    folder = write(tmp_path_factory.mktemp("run"), run, device=device)
    want = compare_parts(ask, folder, run)
    compare_clocks(ask, folder, run)
    compare_sums(ask, folder, run, want)


@settings(SETTINGS, max_examples=3 * SETTINGS.max_examples)
@given(st.integers(0, 2**32))
def test_runs_of_many_groups_equal_the_reference(ask, tmp_path_factory, seed):
    run = random_ranks.make(seed)
    if not any(r["collectives"] for r in run):
        return
    folder = random_ranks.write(tmp_path_factory.mktemp("run"), run)
    want = compare_parts(ask, folder, run)
    compare_clocks(ask, folder, run)
    compare_sums(ask, folder, run, want)


@SETTINGS
@given(st.integers(0, 2**32), st.integers(1, 3), st.booleans(), st.sampled_from((1, 250, 40_000)))
def test_shares_of_a_step_equal_the_reference(ask, tmp_path_factory, seed, steps, gpu, grain):
    (rank,) = traces.build(seed, size=60, grain=grain, steps=steps, gpu=gpu)
    path = traces.write([rank], tmp_path_factory.mktemp("one"), seed, plain=True)
    slices = reference_slices(rank.events)
    windows = [(r["start_ns"], r["total_ns"]) for r in ask(path, "steps")]
    rows = ask(path, "ranks", by="step")
    if not any(r["step"] for r in rows):
        return
    assert len(rows) == len(windows)
    for row, (start, length) in zip(rows, windows):
        want = reference.shares(slices, start, start + length)
        got = [
            row[c]
            for c in (
                "step_ns",
                "compute_ns",
                "exposed_ns",
                "copy_ns",
                "data_ns",
                "host_ns",
                "idle_ns",
                "communication_ns",
            )
        ]
        assert got == [
            length,
            *(want[s] for s in ("compute", "communication", "copy", "data", "host", "idle", "all communication")),
        ]


@SETTINGS
@given(st.integers(0, 2**32), st.integers(-(10**9), 10**9), st.integers(0, 4))
def test_a_shifted_clock_changes_the_offset_and_nothing_else(ask, tmp_path_factory, seed, shift, which):
    run = make_run(seed)
    which %= len(run)
    if len(reference.clocks(run, reference.match(run))) < len(run):
        return
    before = write(tmp_path_factory.mktemp("before"), run)
    moved = copy.deepcopy(run)
    for c in moved[which]["collectives"]:
        for k in ("call", "start", "end"):
            c[k] += shift
    moved[which]["steps"] = [(n, a + shift, b + shift) for n, a, b in moved[which]["steps"]]
    after = write(tmp_path_factory.mktemp("after"), moved)
    columns = ("rank", "kind", "calls", "skew_ns", "wait_ns", "transfer_ns", "last_calls")
    assert [[r[c] for c in columns] for r in ask(before, "collectives", by="rank")] == [
        [r[c] for c in columns] for r in ask(after, "collectives", by="rank")
    ]
    for old, new in zip(ask(before, "clocks"), ask(after, "clocks")):
        assert old["reference"] == new["reference"] == 0
        assert new["offset_ns"] - old["offset_ns"] == (shift if old["rank"] == which else 0) - (
            shift if which == 0 else 0
        )


@SETTINGS
@given(st.integers(0, 2**32))
def test_twice_the_time_and_another_order_of_events(ask, tmp_path_factory, seed):
    run = make_run(seed)
    for rank in run:
        rank["base"] = run[0]["base"]
    slow = copy.deepcopy(run)
    for rank in slow:
        rank["steps"] = [(n, 2 * a, 2 * b) for n, a, b in rank["steps"]]
        for c in rank["collectives"]:
            c.update({k: 2 * c[k] for k in ("call", "start", "end")})
    folders = [write(tmp_path_factory.mktemp(name), r) for name, r in (("run", run), ("slow", slow), ("mixed", run))]
    for f in folders[2].glob("*.json"):
        document = json.loads(f.read_text())
        random.Random(seed).shuffle(document["traceEvents"])
        f.write_text(json.dumps(document))
    for question, columns in (
        ("clocks", ("offset_ns", "low_ns", "high_ns")),
        ("stragglers", ("late_ns",)),
        ("collectives", ("skew_ns", "wait_ns", "transfer_ns", "total_ns")),
    ):
        if ask.run("ask", folders[0], question).returncode:
            continue
        once, twice, mixed = (ask(f, question) for f in folders)
        assert once == mixed
        assert [[None if r[c] is None else 2 * r[c] for c in columns] for r in once] == [
            [r[c] for c in columns] for r in twice
        ]


@SETTINGS
@given(st.integers(0, 2**32), st.booleans())
def test_summaries_answer_as_the_traces_do(ask, tmp_path_factory, seed, whole):
    run = make_run(seed, whole=whole, groups=("0", "1"), ranks=4)
    if not all(r["collectives"] for r in run):
        return
    folder = write(tmp_path_factory.mktemp("run"), run)
    files = sorted(folder.glob("*.json"))
    for f in reversed(files):
        assert ask.run("summarize", f, "-o", f.with_suffix(".tsum")).returncode == 0
    merged, again, at_once = (
        folder.parent / (folder.name + x) for x in ("-merged.tsum", "-again.tsum", "-at-once.tsum")
    )
    assert ask.run("merge", *(f.with_suffix(".tsum") for f in files[2:]), "-o", merged).returncode == 0
    assert (
        ask.run("merge", merged, *(f.with_suffix(".tsum") for f in files[:3]), "-o", again).returncode == 0
    )  # the third a second time
    for f in files:
        f.with_suffix(".tsum").unlink()
    assert ask.run("summarize", folder, "-o", at_once).returncode == 0
    assert again.read_bytes() == at_once.read_bytes()
    for words in (
        ["ranks"],
        ["ranks", "--by", "step"],
        ["collectives", "--by", "part"],
        ["collectives", "--rules", "plugin", "--by", "rank"],
        ["stragglers"],
        ["clocks"],
        ["spread"],
        ["collectives", "--rank", "2"],
    ):
        whole_run, summed = ask.run("ask", folder, *words, "--json"), ask.run("ask", again, *words, "--json")
        assert whole_run.returncode == summed.returncode
        if whole_run.returncode:  # an error names the file to ask next
            assert json.loads(whole_run.stdout)["error"]["text"] == json.loads(summed.stdout)["error"]["text"]
        else:
            assert whole_run.stdout == summed.stdout


# ---- by hand -----------------------------------------------------------------------------------------------


def lagging_run(lags):
    """A rank for each list; step s of 100 us, in which it comes to its all_reduce so many us late."""
    run = []
    for number, own in enumerate(lags):
        rank = {"number": number, "base": 1_700_000_000_000_000_000, "steps": [], "collectives": []}
        for step, lag in enumerate(own):
            t = 1_000_000 + 100_000 * step
            rank["steps"].append((step, t, t + 100_000))
            rank["collectives"].append(collective(t + 10_000 + lag * 1000, t + 90_000))
        run.append(rank)
    return run


JITTER = [[0, 50, 20, 5, 60, 10, 30, 0, 45, 15], [40, 10, 35, 60, 0, 55, 5, 50, 20, 30]]


def test_jitter_makes_no_straggler(ask, tmp_path):
    """Each rank is the last in some steps, by 15 to 60 us: rank 1 on average by 7 us later, give or take 12.
    What it is later in every step is beyond that, 70 us in one step are not."""
    late = [[0] * 10, [min(lag + 30, 75) for lag in JITTER[1]]]
    once = [[0] * 10, [0] * 9 + [70]]
    for name, lags, said in (
        ("jitter", JITTER, "within what steps differ by, so no rank holds up the others"),
        ("late", late, "rank 1 comes last and costs the others up to"),
        ("once", once, "within what steps differ by, so no rank holds up the others"),
        ("few", [lags[:4] for lags in JITTER], "comes last and costs the others up to"),
    ):
        notes = ask.notes(write(tmp_path / name, lagging_run(lags)), "stragglers")
        assert said in notes, (name, notes)


def test_two_ranks_by_hand(ask, tmp_path):
    folder = write(tmp_path / "run", simple_run())
    first, second = ask(folder, "ranks")
    assert (first["steps"], first["step_ns"], first["communication_ns"], first["wait_ns"], first["transfer_ns"]) == (
        2,
        100_000,
        20_000,
        5_000,
        15_000,
    )
    assert (second["communication_ns"], second["wait_ns"], second["transfer_ns"], second["last"]) == (
        15_000,
        0,
        15_000,
        2,
    )
    assert (first["straggler_pct"], second["straggler_pct"]) == (0, 5)
    worst = ask(folder, "stragglers")[0]
    assert (worst["rank"], worst["late_ns"], worst["straggler_pct"], worst["cause"], worst["excess_ns"]) == (
        1,
        5_000,
        5,
        "host",
        5_000,
    )
    (row,) = ask(folder, "collectives")
    assert (row["calls"], row["ranks"], row["missing"], row["bytes"], row["skew_ns"], row["last_rank"]) == (
        2,
        2,
        0,
        8000,
        5_000,
        1,
    )
    assert row["gb_per_s"] == pytest.approx(8000 / 30_000)
    for number, total, wait in (
        (0, 40_000, 10_000),
        (1, 30_000, 0),
    ):  # the same two collectives, what one rank has of them
        (of_one,) = ask(folder, "collectives", rank=number)
        assert (of_one["calls"], of_one["total_ns"], of_one["wait_ns"], of_one["transfer_ns"]) == (
            2,
            total,
            wait,
            30_000,
        )
    assert [c["offset_ns"] for c in ask(folder, "clocks")] == [0, 70_000]
    assert [r["wait_ns"] for r in ask(folder, "collectives", by="rank", clock="files")] == [
        40_000,
        0,
    ]  # as the clocks stand, rank 1 comes after rank 0 left


@pytest.mark.parametrize(
    "steps, text",
    [
        (2, "2 collectives of several ranks: 14 % of the time in them"),
        (1, "1 collective of several ranks: 14 % of the time in it"),
    ],
)
def test_the_headline_of_waiting(ask, tmp_path, steps, text):
    """Of 20 + 15 us in a collective rank 0 waits 5, which is 14 %; collectives that take no time have no share."""
    run = simple_run()
    for rank in run:
        del rank["collectives"][steps:]
    assert text + " is waiting for the last one to come" in ask.notes(write(tmp_path / "run", run), "collectives")
    for c in (c for rank in run for c in rank["collectives"]):
        c["start"] = c["end"]
    run[1]["collectives"][0]["start"] = run[1]["collectives"][0]["end"] = run[0]["collectives"][0]["end"] + 70_000
    assert "of several ranks" not in ask.notes(write(tmp_path / "empty", run), "collectives")


@pytest.mark.parametrize("library, runs", [("gloo", True), ("mpi", True), ("ucc", True), ("nccl", False)])
def test_libraries_of_the_host_show_when_they_ran_beside_kernels(ask, tmp_path, library, runs):
    """Where kernels show when collectives ran, what NCCL annotates without one is a request; a span of a library on the
    host is the run itself."""
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": KERNEL["all_reduce"],
            "pid": 0,
            "tid": 20,
            "ts": 100,
            "dur": 10,
            "args": {"device": 0, "stream": 20},
        },
        {"ph": "X", "cat": "user_annotation", "name": library + ":broadcast", "pid": 1, "tid": 1, "ts": 300, "dur": 7},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    want = [("all_reduce", 10_000)] + [("broadcast", 7_000)] * runs
    assert sorted((r["kind"], r["total_ns"]) for r in ask(tmp_path / "t.json", "collectives", by="kind")) == want


def test_drift_is_found(ask, tmp_path):
    """A clock that gains 20 millionths: 2 s of run, one all_reduce every 50 ms."""
    run = simple_run()
    for rank, gain in zip(run, (0, 20e-6)):
        at = [10_000_000 + 50_000_000 * k for k in range(41)]
        at = [t + round(gain * (t - at[0])) for t in at]
        rank["steps"], rank["collectives"] = [], [collective(t, t + 10_000) for t in at]
    row = ask(write(tmp_path / "run", run), "clocks")[1]
    assert row["drift_ppm"] == pytest.approx(20, rel=1e-3) and row["offset_ns"] == 0 and row["spread_ns"] <= 1
    assert max(r["skew_ns"] for r in ask(tmp_path / "run", "collectives", by="collective")) <= 2


def drift_by_hand(at, ahead):
    """(gain, spread) by the rule of docs/metrics.md: the slope between the medians of the outer thirds, where it
    explains half of the spread."""

    def spread(values):
        middle = statistics.median_low(values)
        return statistics.median_low([abs(v - middle) for v in values])

    third = len(at) // 3
    slope = (statistics.median_low(ahead[-third:]) - statistics.median_low(ahead[:third])) / (
        at[-1 - third // 2] - at[third // 2]
    )
    gained = [math.copysign(math.floor(abs(slope * (t - at[0])) + 0.5), slope) for t in at]
    left, before = spread([a - g for a, g in zip(ahead, gained)]), spread(ahead)
    return (slope, left, before) if 2 * left <= before else (0, before, before)


def test_a_drift_counts_when_it_explains_half_of_the_spread(ask, tmp_path):
    """60 clocks that gain little to much, beside ends that vary by a few ns, so that what is left is often just half of
    what was."""
    rnd, at = random.Random(3), [10_000_000 + 100_000_000 * k for k in range(18)]
    ahead = [[0] * 18] + [
        [round(gain * k) + rnd.randint(-3, 3) for k in range(18)]
        for gain in (rnd.choice((0, 0.2, 0.5, 1, 2)) for _ in range(59))
    ]
    run = [
        {
            "number": i,
            "base": 0,
            "steps": [],
            "collectives": [collective(t + a, t + a + 10_000) for t, a in zip(at, of_rank)],
        }
        for i, of_rank in enumerate(ahead)
    ]
    want = [drift_by_hand(at, of_rank) for of_rank in ahead]
    assert 10 < sum(slope != 0 for slope, _, _ in want) < 50 and any(
        slope and 2 * left == before for slope, left, before in want
    )
    for row, (slope, left, _) in zip(ask(write(tmp_path / "run", run), "clocks"), want):
        assert (row["drift_ppm"], row["spread_ns"]) == (pytest.approx(1e6 * slope, rel=1e-9), left)


def test_many_groups_carry_the_clock_on(ask, tmp_path):
    """Ranks 0 and 1 meet, 1 and 2 meet, 0 and 2 never: their clocks are told by way of 1."""
    run = [{"number": i, "base": 0, "steps": [], "collectives": []} for i in range(3)]
    for k in range(4):
        t = 1_000_000 * (k + 1)
        for i, ahead in ((0, 0), (1, 1_000)):
            run[i]["collectives"].append(collective(t + ahead, t + 500 + ahead, group="a", seq=k))
        for i, ahead in ((1, 1_000), (2, 5_000)):
            run[i]["collectives"].append(collective(t + 10_000 + ahead, t + 10_700 + ahead, group="b", seq=k))
    rows = ask(write(tmp_path / "run", run), "clocks")
    assert [(r["offset_ns"], r["reference"]) for r in rows] == [(0, 0), (1_000, 0), (5_000, 1)]


def test_point_to_point_ends_are_matched(ask, tmp_path):
    for rank, name in ((0, "nccl:send 0->1"), (1, "nccl:recv 1<-0")):
        event = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": 100 + rank, "dur": 10}
        (tmp_path / f"r{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": [event]})
        )
    (row,) = ask(tmp_path, "collectives")
    assert (row["kind"], row["group"], row["ranks"], row["skew_ns"], row["last_rank"]) == (
        "send_recv",
        "0->1",
        2,
        1000,
        1,
    )


def test_hta_stragglers(ask, tmp_path):
    """Rank 2 starts its kernel last in both iterations that count; the kernel must be called ncclKernel and take 1 % of
    a step."""
    for rank in range(3):
        events = []
        for step in range(1, 4):
            t = 1000 * step
            events += [
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": f"ProfilerStep#{step}",
                    "pid": 1,
                    "tid": 1,
                    "ts": t,
                    "dur": 1000,
                },
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": t + 10,
                    "dur": 5,
                    "args": {"correlation": step},
                },
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
                    "pid": 0,
                    "tid": 7,
                    "ts": t + 100 + 50 * rank,
                    "dur": 300 - 50 * rank,
                    "args": {"stream": 7, "device": 0, "correlation": step},
                },
            ]
        (tmp_path / f"r{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": events})
        )
    assert [(r["rank"], r["last"]) for r in ask(tmp_path, "stragglers", rules="hta", candidates=1)] == [(2, 2)]
    assert [r["rank"] for r in ask(tmp_path, "stragglers", rules="hta", candidates=2)] == [1, 2]
    refused = ask.run("ask", tmp_path, "stragglers", "--rules", "hta", "--candidates", "4")
    assert refused.returncode == 3 and "fewer ranks" in refused.stderr
    for word in ("2x", "x", "", "-1", "1000001"):
        refused = ask.run("ask", tmp_path, "stragglers", "--rules", "hta", "--candidates", word)
        assert refused.returncode == 2 and "number of ranks" in refused.stderr, word


def test_plugin_loses_digits_of_epoch_times(ask, tmp_path):
    """The plugin reads times as doubles, which hold quarters of a microsecond since 1970; ours are exact."""
    start, length = "1712195495520870.984", "22.545"
    text = (
        '{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": 1, "tid": 1, "ts": %s, "dur": %s}]}'
        % (start, length)
    )
    (tmp_path / "t.json").write_text(text)
    assert (float(start) + float(length)) - float(start) == 22.5
    assert ask(tmp_path / "t.json", "collectives", by="rank", rules="plugin")[0]["total_ns"] == 22_545


# ---- runs that are not whole -------------------------------------------------------------------------------


def test_a_rank_that_died(ask, tmp_path):
    run = simple_run()
    folder = write(tmp_path / "run", run)
    text = (folder / "rank001.json").read_text()
    (folder / "rank001.json").write_text(text[: text.index("ProfilerStep#1")])  # cut while writing its second step
    run[1]["steps"], run[1]["collectives"] = run[1]["steps"][:1], []
    rows = ask(folder, "ranks")
    assert [r["steps"] for r in rows] == [1, 1] and rows[0]["state"] == ""
    assert "cut" in rows[1]["state"] and "1 of 2 steps" in rows[1]["state"] and "no collectives" in rows[1]["state"]
    notes = ask.notes(folder, "ranks")
    assert "compared here: 1" in notes and "ended before their time" in notes
    assert ask.run("ask", folder, "clocks").returncode == 3


def test_different_step_counts_and_numbers(ask, tmp_path):
    run = simple_run()
    run[1]["steps"].append((2, 1_270_000, 1_370_000))
    run[1]["collectives"].append(collective(1_310_000, 1_330_000))
    folder = write(tmp_path / "uneven", run)
    assert [r["steps"] for r in ask(folder, "ranks")] == [2, 2] and "compared here: 2" in ask.notes(folder, "ranks")
    run[1]["steps"] = [(n + 50, a, b) for n, a, b in run[1]["steps"]]
    folder = write(tmp_path / "apart", run)
    assert [r["steps"] for r in ask(folder, "ranks")] == [2, 3]
    assert "no step number is on all ranks" in ask.notes(folder, "ranks")


def test_steps_that_do_not_line_up(ask, tmp_path):
    """The second rank counts from one more, so the collectives of its step n are those of step n - 1 of the first."""
    run = simple_run()
    assert "line up" not in ask.notes(write(tmp_path / "even", run), "ranks")
    shared = len(run[0]["collectives"])
    run[1]["steps"] = [(n + 1, a, b) for n, a, b in run[1]["steps"]]
    notes = ask.notes(write(tmp_path / "astray", run), "ranks")
    assert f"do not line up: {shared} of {shared} collectives" in notes


def together(start_of):
    """Four collectives of gloo in a step of 100 us that run at the same time: rank r comes to number k of step n at
    start_of(r, n, k), and all end 60 us into the step."""
    return [
        {
            "number": r,
            "base": 0,
            "steps": [(n, 1_000_000 + 100_000 * n, 1_100_000 + 100_000 * n) for n in range(4)],
            "collectives": [
                collective(1_000_000 + 100_000 * n + start_of(r, n, k), 1_060_000 + 100_000 * n)
                for n in range(4)
                for k in range(4)
            ],
        }
        for r in range(2)
    ]


def test_collectives_at_the_same_time_count_each_moment_once(ask, tmp_path):
    """The second rank comes 40 us late to all four of them: the first waits 40 us of its 50 in them, not 160."""
    run = together(lambda r, n, k: 10_000 + 40_000 * r)
    folder = write(tmp_path / "run", run, device=False)
    first, second = ask(folder, "ranks")
    assert [first[c] for c in ("communication_ns", "wait_ns", "transfer_ns")] == [50_000, 40_000, 10_000]
    assert [second[c] for c in ("communication_ns", "wait_ns", "transfer_ns")] == [10_000, 0, 10_000]
    worst = ask(folder, "stragglers")[0]
    assert (worst["rank"], worst["late_ns"], worst["straggler_pct"]) == (1, 40_000, 40)
    assert "rank 1 comes last and costs the others up to 0.040 ms a step (40.0 %)" in ask.notes(folder, "stragglers")


def test_coming_last_costs_no_more_than_a_step(ask, tmp_path):
    """The second rank does something else for 150 us before its step of 100 us begins, and comes 45 us into it: the
    first, which waits in a longer step, has waited for 185 us."""
    run = [
        {
            "number": r,
            "base": 0,
            "steps": [(0, 1_000_000, 1_100_000), (1, 1_200_000 + 150_000 * r, 1_450_000)],
            "collectives": [
                collective(1_010_000, 1_060_000),
                collective(1_210_000 + 185_000 * r, 1_440_000),
            ],
        }
        for r in range(2)
    ]
    folder = write(tmp_path / "run", run, device=False)
    rows = {(r["rank"], r["step"]): r for r in ask(folder, "ranks", by="step")}
    assert (rows[1, "1"]["step_ns"], rows[1, "1"]["straggler_pct"], rows[0, "1"]["wait_ns"]) == (100_000, 45, 185_000)
    assert [(r["rank"], r["late_ns"], r["straggler_pct"]) for r in ask(folder, "stragglers")] == [
        (1, 22_500, 22.5),
        (0, 0, 0),
    ]


@pytest.mark.parametrize("astray, shared", [(1, 2), (2, 3), (1, 3)])
def test_steps_do_not_line_up_when_more_than_half_of_the_collectives_say_so(ask, tmp_path, astray, shared):
    """One collective a step; the second rank counts one step more from the last `astray` steps on."""
    run = [
        {
            "number": i,
            "base": 0,
            "collectives": [collective(1_000_000 + 100_000 * k, 1_020_000 + 100_000 * k) for k in range(shared)],
            "steps": [
                (k + (i and k >= shared - astray), 980_000 + 100_000 * k, 1_070_000 + 100_000 * k)
                for k in range(shared)
            ],
        }
        for i in range(2)
    ]
    notes = ask.notes(write(tmp_path / "run", run), "ranks")
    assert (f"do not line up: {astray} of {shared} collectives" in notes) == (2 * astray > shared)


def test_single_steps_can_be_asked_for(ask, tmp_path):
    run = simple_run()
    run[1]["collectives"][1]["start"] += 3_000  # in step 1 rank 1 is later still
    folder = write(tmp_path / "run", run)
    assert [r["late_ns"] for r in ask(folder, "stragglers", step="0")] == [5_000, 0] and [
        r["late_ns"] for r in ask(folder, "stragglers", step="0:1")
    ] == [6_500, 0]
    assert [r["step"] for r in ask(folder, "ranks", by="step", step="1")] == ["1", "1"] and [
        r["wait_ns"] for r in ask(folder, "ranks", step="1")
    ] == [8_000, 0]
    for words, status in ((["--step", "7"], 3), (["--step", "1:"], 2), (["--step", "x"], 2)):
        assert ask.run("ask", folder, "ranks", *words).returncode == status


def test_without_distributed_info(ask, tmp_path):
    folder = write(tmp_path / "run", simple_run(), info=False)
    assert [r["rank"] for r in ask(folder, "ranks")] == [0, 1] and [r["last"] for r in ask(folder, "ranks")] == [0, 2]
    assert "do not say which rank they are" in ask.notes(folder, "ranks")


def test_some_ranks_of_many(ask, tmp_path):
    folder = write(tmp_path / "run", simple_run(), world=128)
    assert ask(folder, "collectives")[0]["missing"] == 252
    assert "ranks here: 2 of 128" in ask.notes(folder, "collectives")


def test_uneven_collectives_are_matched_within_steps(ask, tmp_path):
    run = simple_run()
    del run[1]["collectives"][0]  # rank 1 lacks the one of step 0
    folder = write(tmp_path / "run", run)
    assert [(r["step"], r["ranks"]) for r in ask(folder, "collectives", by="collective")] == [("0", 1), ("1", 2)]
    assert "within a step" in ask.notes(folder, "collectives")


def test_other_sizes_are_not_one_collective(ask, tmp_path):
    run = simple_run()
    run[1]["collectives"][1]["bytes"] = 8
    folder = write(tmp_path / "run", run)
    assert [r["wait_ns"] for r in ask(folder, "collectives", by="collective")] == [5_000, None]
    assert "larger on one rank" in ask.notes(folder, "collectives")


def test_what_is_missing_is_said(ask, tmp_path):
    lone = write(tmp_path / "lone", simple_run()[:1])
    for question in ("clocks", "stragglers"):
        refused = ask.run("ask", lone, question)
        assert refused.returncode == 3 and "all ranks" in refused.stderr
    (tmp_path / "plain.json").write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
    )
    refused = ask.run("ask", tmp_path / "plain.json", "collectives")
    assert refused.returncode == 3 and "torch.distributed" in refused.stderr
    summary = tmp_path / "lone.tsum"
    assert ask.run("summarize", lone, "-o", summary).returncode == 0
    for words in (
        ["ask", summary, "ops"],
        ["report", summary],
        ["convert", summary, "-o", tmp_path / "x.tacho"],
        ["sql", summary, "select 1"],
    ):
        refused = ask.run(*words)
        assert refused.returncode == 3 and "summary" in refused.stderr
    assert ask.run("check", summary).returncode == 0


def test_damaged_summaries(ask, tmp_path):
    folder = write(tmp_path / "run", make_run(7, ranks=5))
    whole = tmp_path / "run.tsum"
    assert ask.run("summarize", folder, "-o", whole).returncode == 0
    data = whole.read_bytes()
    assert len(ask(whole, "ranks")) == 5
    for length in range(0, len(data), 97):
        (tmp_path / "cut.tsum").write_bytes(data[:length])
        done = ask.run("ask", tmp_path / "cut.tsum", "ranks", "--json")
        assert done.returncode in (0, 4), done.stderr
        if done.returncode == 0:
            answer = json.loads(done.stdout)
            assert len(answer["rows"]) < 5 and answer["losses"][0]["count"] == 5 - len(answer["rows"])
    rnd = random.Random(1)
    for _ in range(40):
        bad = bytearray(data)
        bad[rnd.randrange(16, len(data))] ^= 1 << rnd.randrange(8)
        (tmp_path / "bad.tsum").write_bytes(bad)
        assert ask.run("ask", tmp_path / "bad.tsum", "ranks").returncode in (0, 4)


def test_packed_ranks_keep_values_of_every_kind(tmp_path):
    """Lists, objects, texts and numbers of events come out of a folder of packed files as they came out of each
    file."""
    tachograph = pytest.importorskip("tachograph")
    args = {
        "text": 'a "quoted" text',
        "list": [[2, 3], []],
        "object": {"a": [1, None], "b": {"c": "d"}},
        "number": 17,
        "real": 2.5,
        "yes": True,
        "none": None,
    }
    packed = tmp_path / "packed"
    packed.mkdir()
    for rank in range(2):
        events = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"op{rank}",
                "pid": 1,
                "tid": 1,
                "ts": 100 + rank,
                "dur": 5,
                "args": {**args, "of": f"rank {rank}"},
            }
        ]
        source = tmp_path / f"rank{rank}.json"
        source.write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}), encoding="utf-8"
        )
        with tachograph.open(str(source)) as trace:
            trace.save(str(packed / f"rank{rank}.tacho"))
    with tachograph.open(str(packed)) as run:
        run.export(str(tmp_path / "out.json"), "chrome")
    events = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["traceEvents"]
    got = {e["name"]: e["args"] for e in events if e.get("ph") == "X"}
    for rank in range(2):
        assert {key: got[f"op{rank}"][key] for key in args} == args and got[f"op{rank}"]["of"] == f"rank {rank}"


def test_what_a_rank_does_longer_than_the_middle_one_of_the_others(ask, tmp_path):
    """Compute, copies, loading and the host take 10, 5, 5 and 20 us of rank 0, 20, 10, 10 and 60 of rank 1, 40, 25, 30
    and 105 of rank 2. The lower one of two others counts: that is rank 1 for rank 0, which does at least 5 us less of
    everything, and rank 0 for the rest."""
    for number, (step, kernel, copy_, data) in enumerate([(40, 10, 5, 5), (100, 20, 10, 10), (200, 40, 25, 30)]):
        begin = 1005 + data
        events = [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": "ProfilerStep#0",
                "pid": 1,
                "tid": 1,
                "ts": 1000,
                "dur": step,
            },
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                "pid": 1,
                "tid": 1,
                "ts": 1000,
                "dur": data,
            },
        ]
        for k, (category, name, ts, dur) in enumerate(
            [("kernel", "gemm", begin, kernel), ("gpu_memcpy", "Memcpy HtoD", begin + kernel, copy_)]
        ):
            events += [
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": ts - 0.002,
                    "dur": 0.001,
                    "args": {"correlation": k + 1},
                },
                {
                    "ph": "X",
                    "cat": category,
                    "name": name,
                    "pid": 0,
                    "tid": 7,
                    "ts": ts,
                    "dur": dur,
                    "args": {"device": 0, "stream": 7, "correlation": k + 1},
                },
            ]
        (tmp_path / f"rank{number}.json").write_text(
            json.dumps({"distributedInfo": {"rank": number, "world_size": 3}, "traceEvents": events})
        )
    assert [(r["rank"], r["excess_ns"]) for r in ask(tmp_path, "stragglers")] == [(2, 85_000), (1, 40_000), (0, -5_000)]
