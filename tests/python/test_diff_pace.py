"""Two recordings of one program in which everything takes longer by the same factor were made at another pace of the
machine: no verdict. One operator that takes longer is a change of the program."""

import json

import pytest

tg = pytest.importorskip("tachograph")
OPERATORS = {
    "aten::mm": 40,
    "aten::relu": 10,
    "aten::add": 8,
    "aten::native_layer_norm": 20,
    "aten::sum": 6,
    "aten::mul": 9,
}


def recorded(path, factors, calls=1, steps=12, sleep=0):
    """Operators one after the other, with a hundredth of noise; factors: name → how much longer than in OPERATORS."""
    events, at = [], 1000.0
    for step in range(steps):
        begin = at
        for name, us in OPERATORS.items():
            for _ in range(calls):
                dur = us * factors.get(name, factors.get("all", 1)) * (1 + 0.01 * (step % 3 - 1))
                args = {"Input Dims": [[8, 16], [16, 16]]}
                events.append(
                    {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": dur, "args": args}
                )
                at += dur + 1
        at += sleep
        label = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1}
        events.append({**label, "ts": begin, "dur": at - begin})
        at += 5
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def verdict(a, b, **args):
    diff = tg.diff(a, b, **args)
    row = next(row for row in diff.table if row["by"] == "step" and row["quantity"] == "p50")
    return row["verdict"], diff.table.notes[0]


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_everything_at_another_pace(tmp_path, factor):
    a, b = recorded(tmp_path / "a.json", {}), recorded(tmp_path / "b.json", {"all": factor})
    said, headline = verdict(a, b)
    assert said == "withheld"
    assert headline.startswith(
        "No verdict: the same work goes at another pace: 6 operators that both call as often take "
        f"{factor:.2f} x as long in B at the median"
    )
    assert verdict(a, b, accept="pace")[0] == ("slower" if factor > 1 else "faster")


def test_one_operator_is_a_change(tmp_path):
    a, b = recorded(tmp_path / "a.json", {}), recorded(tmp_path / "b.json", {"aten::mm": 3})
    assert verdict(a, b)[0] == "slower" and verdict(b, a)[0] == "faster"


def test_a_change_larger_than_the_pace(tmp_path):
    """A tenth slower all over, and one operator that takes five times as long: the pace is less than a third of it."""
    a, b = recorded(tmp_path / "a.json", {}), recorded(tmp_path / "b.json", {"all": 1.1, "aten::mm": 5})
    assert verdict(a, b)[0] == "slower"


def test_a_large_change_beside_another_pace(tmp_path):
    """Everything in half the time, and one operator in a twenty-fourth: 299 us against 42. The pace of 0.5 is 0.36 of
    that change, and leaves a factor of 3.5, which is the program's."""
    a = recorded(tmp_path / "a.json", {"aten::mm": 6})
    b = recorded(tmp_path / "b.json", {"all": 0.5, "aten::mm": 0.25})
    assert verdict(a, b)[0] == "faster"


def test_the_pace_of_a_step_that_sleeps(tmp_path):
    """93 us of operators in steps of 1 and 1.1 ms: how fast they go says nothing about the rest."""
    a = recorded(tmp_path / "a.json", {}, sleep=900)
    b = recorded(tmp_path / "b.json", {"all": 1.05}, sleep=1000)
    assert verdict(a, b)[0] == "slower"


def test_other_work_has_no_pace(tmp_path):
    """Twice the calls are another program."""
    a, b = recorded(tmp_path / "a.json", {}), recorded(tmp_path / "b.json", {}, calls=2)
    assert verdict(a, b)[0] == "slower"
