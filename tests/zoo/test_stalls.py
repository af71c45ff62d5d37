"""Long steps of the same work at no place: a finding where they come at equal distances more often than by chance."""

import itertools
import json
import os
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
USUAL_US, LONG_US = 900, 4900


def write(path, steps, long):
    """Steps of three operators; a long step's are each as much longer."""
    events, at = [], 1000
    for i in range(steps):
        begin, part = at, (LONG_US if i in long else USUAL_US) // 3
        for name in ("aten::mm", "aten::add", "aten::relu"):
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": part - 5})
            at += part
        step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1}
        events.append({**step, "ts": begin, "dur": at - begin - 1})
    path.write_text(json.dumps({"traceEvents": events}))


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
    done = subprocess.run(
        [TACHOGRAPH, "ask", tmp_path / "t.json", "findings", "--json"], capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    causes = {row[0] for row in answer["rows"]}
    is_regular = len({b - a for a, b in itertools.pairwise(long)}) == 1
    assert ("periodic-stall" in causes) == (is_regular and chance(steps, len(long)) < 0.01), (
        causes,
        chance(steps, len(long)),
    )
