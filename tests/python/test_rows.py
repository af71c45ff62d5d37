"""The questions rows and document, and codes of text columns, against the documents they are about, on random traces."""
import json

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tachograph
import traces

SETTINGS = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def kept(rank):
    """(index, event) of what HTA's frames hold: complete events with a category, but for the recording itself."""
    return [(i, e) for i, e in enumerate(rank.events) if e.ph == "X" and e.dur is not None and e.cat is not None and e.cat != "Trace"]


def step_of(rank, ts):
    """The last step in order of start that is on at this time."""
    steps = sorted(((e.ts, e.ts + e.dur, int(e.name.split("#")[1])) for _, e in kept(rank) if e.name.startswith("ProfilerStep#")), key=lambda s: s[0])
    begun = [s for s in steps if s[0] <= ts]
    return begun[-1][2] if begun and ts < begun[-1][1] else -1


@SETTINGS
@given(st.integers(0, 10 ** 6), st.integers(1, 3), st.integers(0, 3))
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
            assert abs(row["ts_us"] - (e.ts + rank.base_ns - least - zero) / 1000) <= 1e-15 * abs(e.ts + rank.base_ns) and row["dur_us"] == max(e.dur, 0) / 1000
            if "stream" not in (e.args or {}):
                assert row["stream"] == -1 and row["iteration"] == step_of(rank, e.ts), (row, e)
        if mine:
            first = min(mine, key=lambda row: row["start_ns"])
            assert (begins[number]["start_ns"], begins[number]["ts_us"]) == (first["start_ns"], first["ts_us"])


@pytest.mark.parametrize("rules", ["exact", "hta"])
@pytest.mark.parametrize("steps", ["all", "without_last", "upto_last"])
def test_columns_asked_for_are_those_of_all(tmp_path, rules, steps):
    path = traces.write(traces.build(7, ranks=2, steps=3), tmp_path, 7, plain=True)
    with tachograph.open(str(path)) as trace:
        rows = trace.ask("rows", rules=rules, steps=steps, limit="all").to_dicts()
        for columns in (["iteration"], ["name", "category"], ["start_ns", "ts_us", "dur_us"], ["index", "slice"], ["stream", "correlation", "track"]):
            told = trace.ask("rows", rules=rules, steps=steps, columns=columns, limit="all").to_dicts()
            assert told == [{c: row[c] for c in columns} for row in rows] and rows


@SETTINGS
@given(st.integers(0, 10 ** 6))
def test_a_later_start_changes_the_file_times_alone(tmp_path_factory, seed):
    answers = []
    for shift in (0, 12_345_000):
        path = traces.write(traces.build(seed, ranks=2), tmp_path_factory.mktemp("rows"), seed, plain=True, shift_ns=shift)
        with tachograph.open(str(path)) as trace:
            answers.append([{**row, "start_ns": row["start_ns"] - shift} for row in trace.ask("rows", limit="all")])
    assert answers[0] == answers[1]


@SETTINGS
@given(st.integers(0, 10 ** 6))
def test_document_is_what_stands_beside_the_events(tmp_path_factory, seed):
    ranks = traces.build(seed, ranks=1)
    path = traces.write(ranks, tmp_path_factory.mktemp("document"), seed, plain=True)
    with tachograph.open(str(path)) as trace:
        told = {row["member"]: json.loads(row["json"]) for row in trace.ask("document")}
    want = json.loads(path.read_text())
    want.pop("traceEvents")
    assert told == want


def test_codes_stand_for_texts(tmp_path):
    events = [{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": i, "dur": 1} for i, (cat, name) in enumerate(
        [("cpu_op", "a"), ("cpu_op", "b"), ("cpu_op", "a"), ("a", "cpu_op")])]
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
