"""slack against the truth: the simulator of test_what_if.py runs the program with calls that take longer, and what_if
replays them longer."""

import json

import pytest
import tachograph as tg
import test_what_if
from test_what_if import LAG, program, run

MOST_US = 2000.0


def rows(tmp_path, events, question="slack", **args):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tg.open(str(path)) as trace:
        answer = trace.ask(question, **args)
        return {row.get("name"): row for row in answer}, answer.notes


def borne_us(calls, seed, name):
    """The longest time that each of them may begin later while no step ends later, by trying."""
    _, before = run(calls, seed, spread=0)
    low, high = 0.0, MOST_US
    while high - low > 0.001:
        middle = (low + high) / 2
        _, after = run(calls, seed, spread=0, late={name: middle})
        if max(a - b for a, b in zip(after, before)) < 1e-6:
            low = middle
        else:
            high = middle
    return low


@pytest.mark.parametrize("seed", range(8))
def test_slack_is_what_the_program_bears(tmp_path, seed, monkeypatch):
    """Without gaps between kernels: where two never stood behind each other the recording has none."""
    monkeypatch.setattr(test_what_if, "GAP", 0)
    calls = program(seed)
    found, _ = rows(tmp_path, run(calls, seed, spread=0)[0])
    for kind, name, *_ in calls:
        for which in {"host": [name], "kernel": [name, name + "_op"], "wait": []}[kind]:
            assert found[which]["slack_ns"] / 1000 == pytest.approx(borne_us(calls, seed, which), abs=0.01), which


@pytest.mark.parametrize("seed", range(8))
def test_the_replayed_steps_bear_it_and_no_more(tmp_path, seed):
    events, _ = run(program(seed), seed, spread=0)
    found, _ = rows(tmp_path, events)
    tried = 0
    for name, row in found.items():
        if row["slack_ns"] is None or name.startswith("cuda"):
            continue
        for more, grows in ((0, False), (1, True)):
            late = f'name = "{name}" and category = "{row["category"]}" {row["slack_ns"] + more}ns'
            answer, _ = rows(tmp_path, events, "what_if", add=late)
            assert (answer[None]["saving_ns"] < 0) == grows, (name, row, more)
            assert answer[None]["changed"] == row["calls"]
        tried += 1
    assert tried >= 5


def test_two_calls_share_the_time_that_one_has(tmp_path):
    """A kernel runs from 5 to 105 us. Its launch takes 3, and 5 later two operators of 10 us follow, to 28: the second
    one may take 77 us longer by itself, both together half of it each."""
    calls = [("kernel", "k", 1, 100, LAG), ("host", "o", 0, 10, 0), ("host", "o", 0, 10, 0), ("wait", "w", 0, 0, 20)]
    found, _ = rows(tmp_path, run(calls, 0, spread=0)[0])
    assert found["o"]["alone_ns"] == 77_000 and found["o"]["slack_ns"] == 38_500
    assert found["o"]["calls"] == 18 and found["o"]["steps"] == 9 and found["o"]["dur_ns"] == 180_000
    assert found["k"]["slack_ns"] == found["k"]["alone_ns"] == 0
    assert found["k_op"]["slack_ns"] == 0


def test_a_thread_that_no_step_waits_for_has_no_bound(tmp_path):
    events, _ = run([("host", "o", 0, 50, 5)], 0, spread=0)
    beside = [
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 2, "ts": 55 * i + 3, "dur": 20} for i in range(9)
    ]
    found, _ = rows(tmp_path, events + beside)
    assert found["b"]["slack_ns"] is None and found["b"]["alone_ns"] is None and found["b"]["steps"] == 9
    assert found["o"]["slack_ns"] == 0 and found["o"]["track"] != found["b"]["track"]


def test_of_too_many_names_the_least_have_a_lower_bound(tmp_path):
    """A kernel runs from 5 to 20005 us of each step. 8000 operators of 1 us, 1.5 us the first ten, begin at 8 us: to
    8013. Each may take 11992 us longer in all nine steps, and a ninth of that is sure."""
    names = [("host", f"o{i}", 0, 1.5 if i < 10 else 1, 0) for i in range(8000)]
    events, _ = run([("kernel", "k", 1, 20000, LAG), *names, ("wait", "w", 0, 0, 20)], 0, spread=0)
    found, notes = rows(tmp_path, events)
    slacks = [found[f"o{i}"]["slack_ns"] for i in range(8000)]
    assert set(slacks) == {11_992_000, 11_992_000 // 9} and set(slacks[:10]) == {11_992_000}
    bounds = slacks.count(11_992_000 // 9)
    assert 100 < bounds < 7000 and f"slack_ns of {bounds} rows" in " ".join(notes)
    assert {found[f"o{i}"]["alone_ns"] for i in range(8000)} == {11_992_000}


def test_lines(tmp_path):
    """The two operators of 10 us above, called by two lines."""
    calls = [("kernel", "k", 1, 100, LAG), ("host", "o", 0, 10, 0), ("host", "p", 0, 10, 0), ("wait", "w", 0, 0, 20)]
    events, _ = run(calls, 0, spread=0)
    lines = {"o": "train.py(3): step", "p": "train.py(4): step"}
    for event in events:
        if event["name"] in lines:
            event["args"]["Call stack"] = lines[event["name"]]
    found, _ = rows(tmp_path, events, by="line")
    assert set(found) == set(lines.values())
    for row in found.values():
        assert row["slack_ns"] == row["alone_ns"] == 77_000 and row["calls"] == 9 and row["category"] is None


def test_without_a_model_it_says_why(tmp_path):
    events, _ = run(program(0), 0)
    with pytest.raises(tg.TachographError, match="no model of the steps: the trace has no steps") as caught:
        rows(tmp_path, [e for e in events if not e["name"].startswith("ProfilerStep")])
    assert caught.value.code == "NO_DATA"
