"""The predicted steps as a trace, event by event, against a simulator that runs the changed program; the figures that
are read from it against those of what_if."""

import collections
import json
import statistics

import pytest
import tachograph as tg
from test_what_if import FETCH, GAP, STEPS, program, run as simulate


def run(calls, seed, **how):
    """In whole ns, so that what touches does not overlap."""
    events, lengths = simulate(calls, seed, **how)
    for event in events:
        end = round(event["ts"] + event["dur"], 3)
        event["ts"] = round(event["ts"], 3)
        event["dur"] = round(end - event["ts"], 3)
    return events, lengths


def write(tmp_path, events, **document):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, **document}))
    return path


def predict(path, to=None, **change):
    """The written document, and the row of what_if."""
    out = to or path.with_name("predicted.json")
    with tg.open(str(path)) as trace:
        trace.export(out, what_if=change)
        row = next(iter(trace.ask("what_if", **change)))
    return json.loads(out.read_text()), row


def lengths(document, tmp_path):
    path = tmp_path / "again.json"
    path.write_text(json.dumps(document))
    with tg.open(str(path)) as trace:
        return [row["total_ns"] for row in trace.ask("steps")]


def spans(events):
    """(name, place) → starts and durations in ns, by time."""
    found = collections.defaultdict(list)
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
        place = event["name"], event["pid"], event["tid"]
        found[place].append((round(1000 * event["ts"]), round(1000 * event["dur"])))
    return found


def same(predicted, truth, near_ns=50):
    assert predicted.keys() == truth.keys()
    for key, expected in truth.items():
        assert len(predicted[key]) == len(expected), key
        for got, want in zip(predicted[key], expected):
            assert got == pytest.approx(want, abs=near_ns), key


@pytest.mark.parametrize("seed", range(6))
def test_every_event_is_where_the_changed_program_has_it(tmp_path, seed):
    calls = program(seed)
    path = write(tmp_path, run(calls, seed)[0])
    for kind, name, *_ in calls:
        if kind == "wait":
            continue
        truth, after = run(calls, seed, change=lambda n, step: 0.5 if n == name else 1.0)
        document, row = predict(path, scale=f'name = "{name}" 0.5')
        same(spans(document["traceEvents"]), spans(truth))
        assert row["predicted_ns"] == pytest.approx(1000 * statistics.median(after), abs=50)
        truth, _ = run(calls, seed, without=(name,))
        document, _ = predict(path, remove=f'name = "{name if kind == "host" else name + "_op"}"')
        same(spans(document["traceEvents"]), spans(truth))
    truth, _ = run(calls, seed, no_wait={name for kind, name, *_ in calls if kind == "wait"})
    document, _ = predict(path, overlap='name ~ "Synchronize"')
    # kernels that never stood behind each other do then: the gap between them is not in the recording
    same(spans(document["traceEvents"]), spans(truth), 50 + 1000 * GAP * STEPS)


CHANGES = (
    {},
    {"remove": 'name = "first_op"'},
    {"scale": 'category = "kernel" 0.25'},
    {"add": 'name = "first" 40us'},
    {"add": 'name = "first_op" 40us'},
    {"move_off": 'name ~ "_op" and name != "first_op"'},
    {"batch": 'name ~ "_op"'},
    {"scale": 'category = "kernel" 3', "overlap": 'name ~ "Synchronize"'},
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_read_back_it_has_the_predicted_steps(tmp_path, seed, change):
    path = write(tmp_path, run(program(seed), seed)[0])
    document, row = predict(path, **change)
    read = lengths(document, tmp_path)
    assert len(read) == STEPS and statistics.median(read) == pytest.approx(row["predicted_ns"], abs=1)
    with tg.open(str(path)) as trace:
        by_step = [r["predicted_ns"] for r in trace.ask("what_if", by="step", **change)]
    assert read == by_step
    by_thread = collections.defaultdict(list)  # children lie inside their parents
    for (_, pid, tid), times in spans(document["traceEvents"]).items():
        by_thread[pid, tid] += [(ts, ts + dur) for ts, dur in times]
    for times in by_thread.values():
        times.sort(key=lambda t: (t[0], -t[1]))
        around = []
        for ts, end in times:
            while around and around[-1] <= ts:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)


def test_without_a_change_it_is_the_recorded_steps(tmp_path):
    events, _ = run(program(1), 1)
    document, _ = predict(write(tmp_path, events, schemaVersion=1))
    assert spans(document["traceEvents"]) == spans(events)
    assert document["schemaVersion"] == 1 and document["predicted"] == {"change": "no change"}


def test_the_label_and_what_does_not_hold_any_more(tmp_path):
    path = write(tmp_path, run(program(1), 1)[0], run={"step_ns": 5})
    change = 'name = "first" and category = "kernel" 0.5'
    document, _ = predict(path, scale=change)
    assert document["predicted"] == {"change": f"scale {change}"} and "run" not in document
    labels = [e["args"]["labels"] for e in document["traceEvents"] if e["name"] == "process_labels"]
    assert labels == [f"predicted: scale {change}"]
    with tg.open(str(path.with_name("predicted.json"))) as trace:
        rows = {r["quantity"]: r["text"] for r in trace.ask("overview")}
    assert rows["predicted"] == f"scale {change}"


@pytest.mark.parametrize("workers, step_us", [(1, 60), (2, 40)])
def test_a_step_waits_for_its_workers(tmp_path, workers, step_us):
    calls = [("host", FETCH, 0, 60, 0), ("host", "o", 0, 40, 0)]
    document, row = predict(write(tmp_path, run(calls, 0, spread=0)[0]), workers=workers)
    assert lengths(document, tmp_path) == [step_us * 1000] * STEPS and row["predicted_ns"] == step_us * 1000


def flows(events):
    """With a flow from each launch to its kernel."""
    more = []
    for event in events:
        if event["cat"] in ("cuda_runtime", "kernel") and "correlation" in event["args"]:
            end = event["cat"] == "kernel"
            more.append(
                {
                    "ph": "f" if end else "s",
                    "id": event["args"]["correlation"],
                    "cat": "ac2g",
                    "name": "ac2g",
                    **{k: event[k] for k in ("pid", "tid", "ts")},
                    **({"bp": "e"} if end else {}),
                }
            )
    return [*events, *more]


def test_flows_go_with_their_events(tmp_path):
    events = flows(run(program(2), 2)[0])
    path = write(tmp_path, events)
    document, _ = predict(path, scale='category = "kernel" 2', remove='name = "other_op"')
    starts = {
        (e["ph"] == "X" and e["cat"] == "kernel", e["args"]["correlation"]): e["ts"]
        for e in document["traceEvents"]
        if e["ph"] == "X" and "correlation" in e.get("args", {})
    }
    kept = [e for e in document["traceEvents"] if e["ph"] in "sf"]
    assert len(kept) == len([e for e in events if e["ph"] in "sf"]) - 2 * STEPS  # those of `other` are gone
    for event in kept:
        assert event["ts"] == starts[event["ph"] == "f", event["id"]]
    document, _ = predict(path, remove='name = "other"')  # only the kernel: its launch stays, without an arrow
    assert len([e for e in document["traceEvents"] if e["ph"] == "s"]) == len(
        [e for e in document["traceEvents"] if e["ph"] == "f"]
    )


def test_steps_between_batches_get_a_name(tmp_path):
    """No annotation says where a step is: they go from one batch to the next."""
    calls = [("host", FETCH, 0, 20, 0), ("host", "o", 0, 40, 5), ("host", "p", 0, 30, 5)]
    events = [e for e in run(calls, 0)[0] if not e["name"].startswith("ProfilerStep")]
    for event in events:
        event["cat"] = "user_annotation" if event["name"] == FETCH else "cpu_op"
    document, row = predict(write(tmp_path, events), scale='name = "o" 0.5')
    assert row["verdict"] == "proven" and row["steps"] == STEPS - 1  # the last has no end
    assert statistics.median(lengths(document, tmp_path)) == pytest.approx(row["predicted_ns"], abs=1)
    names = [e["name"] for e in document["traceEvents"] if e["name"].startswith("ProfilerStep")]
    assert names == [f"ProfilerStep#{i}" for i in range(STEPS - 1)]


def around(events):
    """Before the steps and behind them, around them, and beside them."""
    first, last = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    shift = 1000 - first
    for event in events:
        event["ts"] += shift
    host = {"ph": "X", "pid": 1, "tid": 1, "args": {}}
    return [
        *events,
        {**host, "cat": "python_function", "name": "main", "ts": 10, "dur": last + 3000},
        {**host, "cat": "cpu_op", "name": "load", "ts": 20, "dur": 100},
        {**host, "cat": "cpu_op", "name": "save", "ts": last + 2500, "dur": 100},
        {**host, "tid": 9, "cat": "cpu_op", "name": "beside", "ts": 1000 + (last - first) / 2, "dur": 4},
        {"ph": "i", "s": "t", "pid": 1, "tid": 1, "cat": "cpu_instant_event", "name": "before", "ts": 30, "args": {}},
    ]


def test_what_is_no_part_of_the_steps_is_left_out_and_what_is_beside_them_stays_beside_them(tmp_path):
    events = around(run([("host", "a", 0, 100, 0), ("host", "b", 0, 100, 0)], 0, spread=0)[0])
    document, row = predict(write(tmp_path, events), scale='name = "a" or name = "b" 0.5')
    found = spans(document["traceEvents"])
    names = {name for name, *_ in found}
    assert not {"load", "save"} & names and not [e for e in document["traceEvents"] if e["name"] == "before"]
    steps = sorted(times[0] for (name, *_), times in found.items() if name.startswith("ProfilerStep"))
    assert steps[0][0] == 1_000_000 and row["predicted_ns"] == 100_000
    assert found["main", 1, 1] == [(1_000_000, STEPS * 100_000)]  # cut to the steps
    assert found["beside", 1, 9] == [
        (1_000_000 + STEPS * 50_000, 2000)
    ]  # in the middle of the steps, with half of its time


@pytest.mark.parametrize(
    "change, why",
    [
        ({"remove": 'name = "nothing"'}, "Nothing in the steps is selected"),
        ({"remove": 'name ~ ""'}, "the change removes all that the steps consist of"),
        ({"remove": "nme = 3"}, "nme"),
        ({"critical": "path"}, "critical"),
    ],
)
def test_what_has_no_prediction_writes_nothing(tmp_path, change, why):
    path = write(tmp_path, run(program(0), 0)[0])
    with tg.open(str(path)) as trace, pytest.raises(tg.TachographError, match=why):
        trace.export(tmp_path / "out.json", what_if=change)
    assert not (tmp_path / "out.json").exists()


def test_a_model_that_is_refused_writes_nothing(tmp_path):
    events = [e for e in run(program(0), 0)[0] if e["name"] not in {f"ProfilerStep#{i}" for i in range(6)}]
    path = write(tmp_path, events)
    with tg.open(str(path)) as trace, pytest.raises(tg.TachographError, match="No prediction of the steps: .*To get"):
        trace.export(tmp_path / "out.json", what_if={"remove": 'name = "first"'})


def test_the_command(tachograph, tmp_path):
    path = write(tmp_path, run(program(0), 0)[0])
    change = ("--scale", 'name = "first" 0.5')
    out = tmp_path / "out.json.gz"
    done = tachograph("ask", path, "what_if", *change, "--to", "trace", "-o", out)
    assert done.returncode == 0 and str(out) in done.stderr
    steps = json.loads(tachograph("ask", out, "steps", "--by", "summary", "--where", "step = 'p50'", "--json").stdout)
    asked = json.loads(tachograph("ask", path, "what_if", *change, "--json").stdout)
    total = steps["rows"][0][[c["name"] for c in steps["columns"]].index("total_ns")]
    predicted = asked["rows"][0][[c["name"] for c in asked["columns"]].index("predicted_ns")]
    assert abs(total - predicted) <= 1
    document = json.loads(tachograph("ask", path, "what_if", *change, "--to", "trace").stdout)
    assert document["predicted"]["change"] == 'scale name = "first" 0.5'


@pytest.mark.parametrize(
    "words, why",
    [
        (["what_if", "--to", "text"], "--to is trace, not 'text'"),
        (["ops", "--to", "trace"], "--to trace writes what the question what_if predicts"),
        (["what_if", "--to", "trace", "-o", "no/such/folder/x.json"], "no/such/folder"),
        (["what_if", "--to", "trace", "-o", "x.pftrace"], "a trace in JSON"),
        (["what_if", "--to", "trace", "-o", "trace.json"], "would replace the trace that is read"),
        (["what_if", "--to", "trace", "--where", "steps > 1"], "where= is for a table"),
    ],
)
def test_a_command_that_is_wrong(tachograph, tmp_path, monkeypatch, words, why):
    path = write(tmp_path, run(program(0), 0)[0])
    before = path.read_bytes()
    monkeypatch.chdir(tmp_path)
    done = tachograph("ask", "trace.json", *words)
    assert done.returncode != 0 and why in done.stderr and "traceEvents" not in done.stdout, done.stderr
    assert path.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["trace.json"]


def test_one_rank_at_a_time(tachograph, tmp_path):
    events = run(program(0), 0)[0]
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        document = {"traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 2}}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    done = tachograph("ask", folder, "what_if", "--to", "trace", "-o", tmp_path / "x.json")
    assert done.returncode != 0 and "say which with rank=" in done.stderr
    done = tachograph("ask", folder, "what_if", "--rank", "1", "--to", "trace", "-o", tmp_path / "x.json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["distributedInfo"]["rank"] == 1 and spans(document["traceEvents"]) == spans(events)
