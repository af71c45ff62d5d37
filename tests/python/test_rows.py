"""The questions rows and document, and codes of text columns, against the documents they are about, on random
traces."""

import json

import numpy
import pytest
import tachograph
import traces
from hypothesis import HealthCheck, given, settings, strategies as st

SETTINGS = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def kept(rank):
    """(index, event) of what HTA's frames hold: complete events with a category, but for the recording itself."""
    return [
        (i, e)
        for i, e in enumerate(rank.events)
        if e.ph == "X" and e.dur is not None and e.cat is not None and e.cat != "Trace"
    ]


def step_of(rank, ts):
    """The last step in order of start that is on at this time."""
    steps = sorted(
        ((e.ts, e.ts + e.dur, int(e.name.split("#")[1])) for _, e in kept(rank) if e.name.startswith("ProfilerStep#")),
        key=lambda s: s[0],
    )
    begun = [s for s in steps if s[0] <= ts]
    return begun[-1][2] if begun and ts < begun[-1][1] else -1


@SETTINGS
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 3))
def test_rows_are_the_complete_events(tmp_path_factory, seed, count, steps):
    folder = tmp_path_factory.mktemp("rows")
    ranks = traces.build(seed, ranks=count, steps=steps)
    with tachograph.open(str(traces.write(ranks, folder, seed, plain=True))) as trace:
        table = trace.ask("rows", limit="all").to_dicts()
        begins = {row["rank"]: row for row in trace.ask("rows", by="rank")}
    least = min(r.base_ns for r in ranks)
    zero = min((e.ts + r.base_ns - least for r in ranks for _, e in kept(r)), default=0)
    for number, rank in enumerate(ranks):
        mine = [row for row in table if row["rank"] == number]
        assert [row["index"] for row in mine] == [i for i, _ in kept(rank)]
        for row, (_, e) in zip(mine, kept(rank)):
            assert (row["category"], row["name"], row["start_ns"]) == (e.cat, e.name, e.ts)
            assert (
                abs(row["ts_us"] - (e.ts + rank.base_ns - least - zero) / 1000) <= 1e-15 * abs(e.ts + rank.base_ns)
                and row["dur_us"] == max(e.dur, 0) / 1000
            )
            if "stream" not in (e.args or {}):
                assert row["stream"] == -1 and row["iteration"] == step_of(rank, e.ts), (row, e)
        if mine:
            first = min(mine, key=lambda row: row["start_ns"])
            assert (begins[number]["start_ns"], begins[number]["ts_us"]) == (first["start_ns"], first["ts_us"])


@SETTINGS
@given(st.integers(0, 10**6))
def test_args_are_those_of_the_file(tmp_path_factory, seed):
    """Whole numbers, fractions and texts, of slices and of marks; what an event does not have is unknown."""
    keys = ("correlation", "External id", "stream", "blocks per SM", "Python parent id", "Bytes", "id", "no such key")
    (rank,) = traces.build(seed)
    with tachograph.open(str(traces.write([rank], tmp_path_factory.mktemp("args"), seed, plain=True))) as trace:
        for by in ("slice", "mark"):
            events = [e for e in rank.events if (e.ph == "X") == (by == "slice")]
            want = [(e.name, e.ts, *({**e.more, **(e.args or {})}.get(k) for k in keys)) for e in events]
            rows = trace.ask("events", by=by, args=",".join(keys), limit="all").to_dicts()
            got = [
                (r["name"], r["start_ns"], *(r["args." + k] if "args." + k in r else r[k] for k in keys)) for r in rows
            ]

            def line(values):
                return tuple(float(v) if isinstance(v, (int, float)) else str(v) for v in values)

            assert sorted(map(line, got), key=repr) == sorted(map(line, want), key=repr), by


def sums_of(rows, keys):
    """Rows by these columns: how many, and their durations added up."""
    sums = {}
    for row in rows:
        count, dur = sums.get(tuple(row[k] for k in keys), (0, 0.0))
        sums[tuple(row[k] for k in keys)] = (count + 1, dur + row["dur_us"])
    return sums


@SETTINGS
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(["exact", "hta"]),
    st.sampled_from(["all", "without_last", "upto_last"]),
)
def test_sums_are_those_of_the_rows(tmp_path_factory, seed, count, steps, rules, kept_steps):
    how = {"rules": rules, "steps": kept_steps, "limit": "all"}
    path = traces.write(traces.build(seed, ranks=count, steps=steps), tmp_path_factory.mktemp("sums"), seed, plain=True)
    with tachograph.open(str(path)) as trace:
        rows = trace.ask("rows", **how).to_dicts()
        for rank in range(count):
            mine = [row for row in rows if row["rank"] == rank]
            reach = [r["dur_us"] for r in trace.ask("rows", by="rank", **how) if r["rank"] == rank]
            starts = [row["ts_us"] for row in mine]
            assert reach == pytest.approx([max(starts) - min(starts)] if mine else [], abs=2e-3)
            numbers = {row["iteration"] for row in mine} - {None, -1}
            told = [r for r in trace.ask("rows", by="step", **how) if r["rank"] == rank]
            assert sorted(r["iteration"] for r in told if r["name"] is None) == sorted(numbers)
            assert trace.ask("rows", by="step", rank=rank, **how).to_dicts() == told
            assert sorted(r["name"] for r in told if r["name"] is not None) == sorted(
                {r["name"] for r in mine if r["name"].startswith("ProfilerStep#")}
            )
            for side, on in (
                ("all", lambda row: True),
                ("device", lambda row: row["stream"] != -1),
                ("host", lambda row: row["stream"] == -1),
            ):
                for chosen in (None, *sorted(numbers)[:2]):
                    told = trace.ask(
                        "rows",
                        rank=rank,
                        by="name",
                        side=side,
                        **how,
                        **({} if chosen is None else {"iteration": chosen}),
                    )
                    want = sums_of(
                        [row for row in mine if on(row) and chosen in (None, row["iteration"])], ("category", "name")
                    )
                    got = {(r["category"], r["name"]): (r["events"], r["dur_us"]) for r in told}
                    assert {k: v[0] for k, v in got.items()} == {k: v[0] for k, v in want.items()}
                    assert [got[k][1] for k in want] == pytest.approx([v[1] for v in want.values()], abs=1e-3)


@SETTINGS
@given(
    st.integers(0, 10**6),
    st.integers(1, 2),
    st.sampled_from(["exact", "hta"]),
    st.sampled_from(["device", "work", "host"]),
)
def test_a_side_is_some_of_the_rows(tmp_path_factory, seed, count, rules, side):
    """With args beside them that are those of the events."""
    path = traces.write(traces.build(seed, ranks=count), tmp_path_factory.mktemp("side"), seed, plain=True)
    with tachograph.open(str(path)) as trace:
        rows = [row for row in trace.ask("rows", rules=rules, limit="all") if (row["stream"] != -1) == (side != "host")]
        rows = [row for row in rows if side != "work" or row["category"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        keys = ["stream", "correlation", "External id", "no such key", "External id"]
        of_event = {row["id"]: row for row in trace.ask("events", args=keys, limit="all")}
        told = trace.ask("rows", rules=rules, side=side, args=keys, limit="all").to_dicts()
        assert [{k: row[k] for k in rows[0]} for row in told] == rows if rows else told == []
        for row in told:
            event = of_event[row["slice"]]
            assert [
                row["args.stream"],
                row["args.correlation"],
                row["External id"],
                row["no such key"],
                row["args.External id"],
            ] == [event[k] for k in keys]


@pytest.mark.parametrize("iteration", ["x", "1,", "1;2", "99999999999999999999"])
def test_iterations_that_are_no_numbers(tmp_path, iteration):
    path = traces.write(traces.build(1, ranks=1), tmp_path, 1, plain=True)
    with tachograph.open(str(path)) as trace, pytest.raises(tachograph.TachographError, match="list of numbers"):
        trace.ask("rows", by="name", iteration=iteration)


@pytest.mark.parametrize("rules", ["exact", "hta"])
@pytest.mark.parametrize("steps", ["all", "without_last", "upto_last"])
def test_columns_asked_for_are_those_of_all(tmp_path, rules, steps):
    path = traces.write(traces.build(7, ranks=2, steps=3), tmp_path, 7, plain=True)
    with tachograph.open(str(path)) as trace:
        rows = trace.ask("rows", rules=rules, steps=steps, limit="all").to_dicts()
        for columns in (
            ["iteration"],
            ["name", "category"],
            ["start_ns", "ts_us", "dur_us"],
            ["index", "slice"],
            ["stream", "correlation", "track"],
        ):
            told = trace.ask("rows", rules=rules, steps=steps, columns=columns, limit="all").to_dicts()
            assert told == [{c: row[c] for c in columns} for row in rows] and rows


@SETTINGS
@given(st.integers(0, 10**6))
def test_a_later_start_changes_the_file_times_alone(tmp_path_factory, seed):
    answers = []
    for shift in (0, 12_345_000):
        path = traces.write(
            traces.build(seed, ranks=2), tmp_path_factory.mktemp("rows"), seed, plain=True, shift_ns=shift
        )
        with tachograph.open(str(path)) as trace:
            answers.append([{**row, "start_ns": row["start_ns"] - shift} for row in trace.ask("rows", limit="all")])
    assert answers[0] == answers[1]


@SETTINGS
@given(st.integers(0, 10**6))
def test_document_is_what_stands_beside_the_events(tmp_path_factory, seed):
    ranks = traces.build(seed, ranks=1)
    path = traces.write(ranks, tmp_path_factory.mktemp("document"), seed, plain=True)
    with tachograph.open(str(path)) as trace:
        told = {row["member"]: json.loads(row["json"]) for row in trace.ask("document")}
    want = json.loads(path.read_text())
    want.pop("traceEvents")
    assert told == want


def test_codes_stand_for_texts(tmp_path):
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": i, "dur": 1}
        for i, (cat, name) in enumerate([("cpu_op", "a"), ("cpu_op", "b"), ("cpu_op", "a"), ("a", "cpu_op")])
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tachograph.open(str(path)) as trace:
        table = trace.ask("rows")
        names, categories = (numpy.frombuffer(table[c].codes(), dtype=numpy.uint32) for c in ("name", "category"))
        assert names[0] == names[2] == categories[3] != names[1] and categories[0] == categories[1] == names[3]
        try:
            table["index"].codes()
            raise AssertionError("a column of numbers has no codes")
        except TypeError:
            pass


def test_device_work_that_nobody_launched_is_in_no_step(tmp_path):
    """Nor in step 0, where it lies; what was launched there is."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": 10,
            "dur": 5,
            "args": {"correlation": 1},
        },
        *(
            {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": 0,
                "tid": 7,
                "ts": ts,
                "dur": 5,
                "args": {"device": 0, "stream": 7, "correlation": k},
            }
            for name, ts, k in (("launched", 20, 1), ("found", 40, 2))
        ),
    ]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    with tachograph.open(str(tmp_path / "a.json")) as trace:
        assert {r["name"] for r in trace.ask("rows", by="name", iteration="0")} == {
            "ProfilerStep#0",
            "cudaLaunchKernel",
            "launched",
        }
        assert {r["name"] for r in trace.ask("rows", by="name", iteration="0", side="device")} == {"launched"}
        assert {r["name"] for r in trace.ask("rows", by="name", side="device")} == {"launched", "found"}


@pytest.mark.parametrize("steps", ["without_last", "upto_last"])
def test_some_steps_stand_at_the_times_of_all(tmp_path, steps):
    path = traces.write(traces.build(7, ranks=2, steps=3), tmp_path, 7, plain=True)
    with tachograph.open(str(path)) as trace:
        times = {row["slice"]: row["ts_us"] for row in trace.ask("rows", limit="all")}
        rows = trace.ask("rows", steps=steps, limit="all").to_dicts()
        assert {row["slice"]: row["ts_us"] for row in rows} == {
            row["slice"]: times[row["slice"]] for row in rows
        } and len(rows) > 0
        assert [r["ts_us"] for r in trace.ask("rows", by="rank", steps=steps)] == [
            min(r["ts_us"] for r in rows if r["rank"] == rank) for rank in range(2)
        ]
