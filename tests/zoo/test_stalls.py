"""Long steps of the same work at no place: a finding where they come at equal distances more often than by chance."""

import itertools
import json
import os
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
USUAL_US, LONG_US = 900, 4900


def slice_of(category, name, at, dur):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": dur}


def write(path, steps, long, around=None):
    """Steps of three operators, and a long one. Long steps' are each as much longer; with around, they have the same
    three and 4 ms of another operator inside that annotation."""
    events, at = [], 1000
    for i in range(steps):
        is_longer = i in long and around is None
        begin, part = at, (LONG_US if is_longer else USUAL_US) // 3
        for name in ("aten::mm", "aten::add", "aten::relu"):
            events.append(slice_of("cpu_op", name, at, part - 5))
            at += part
        if i in long and around:
            events.append(slice_of("user_annotation", around, at, LONG_US - USUAL_US))
            events.append(slice_of("cpu_op", "aten::bmm", at + 2, LONG_US - USUAL_US - 4))
            at += LONG_US - USUAL_US + 5
        events.append(slice_of("user_annotation", f"ProfilerStep#{i}", begin, at - begin - 1))
    path.write_text(json.dumps({"traceEvents": events}))


def causes_of(path):
    done = subprocess.run([TACHOGRAPH, "ask", path, "findings", "--json"], capture_output=True, text=True, check=True)
    return {row[0] for row in json.loads(done.stdout)["rows"]}


def chance(steps, count):
    """Of so many of the steps behind the first, counted one by one."""
    all_of = list(itertools.combinations(range(1, steps), count))
    return sum(len({b - a for a, b in itertools.pairwise(one)}) == 1 for one in all_of) / len(all_of)


@pytest.mark.parametrize(
    "steps, long",
    [(14, (3, 8, 13)), (14, (2, 5, 8, 11)), (20, (4, 9, 14, 19)), (24, (3, 8, 13, 18, 23)), (24, (3, 8, 13, 18, 22))],
)
def test_chance_decides(tmp_path, steps, long):
    write(tmp_path / "t.json", steps, long)
    causes = causes_of(tmp_path / "t.json")
    is_regular = len({b - a for a, b in itertools.pairwise(long)}) == 1
    assert ("periodic-stall" in causes) == (is_regular and chance(steps, len(long)) < 0.01), (
        causes,
        chance(steps, len(long)),
    )


@pytest.mark.parametrize("around, stalls", [("evaluate", True), ("Optimizer.step#SGD.step", False)])
def test_steps_that_train_more_are_no_stall(tmp_path, around, stalls):
    """An update after every fourth batch is a part of training; another pass over the data every fourth step is not."""
    write(tmp_path / "t.json", 20, range(3, 20, 4), around)
    assert ("periodic-stall" in causes_of(tmp_path / "t.json")) == stalls
