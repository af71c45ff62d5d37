"""From a complaint to the command that looks into it, and the checklist of a profile."""

import json
import os
import pathlib
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")


def tachograph(*words, **options):
    return subprocess.run([TACHOGRAPH, *map(str, words)], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize(
    "complaint, command",
    [
        ("training slow", "tachograph report FILE"),
        ("low GPU use, yet slow", "tachograph ask FILE gaps"),
        ("which part is the bottleneck?", "tachograph ask FILE modules"),
        ("did the change help", "tachograph diff BEFORE AFTER"),
        ("memory is too high", "tachograph memory FILE"),
        ("the first iteration is slow", "tachograph ask FILE steps"),
        ("it is fast enough", None),
        ("the results are wrong", None),
    ],
)
def test_complaints(complaint, command):
    answer = json.loads(tachograph("questions", complaint, "--json").stdout)
    assert answer["rows"][0][1] == command
    words = (command or "").split()
    if words[1:2] == ["ask"]:
        assert tachograph("questions", words[3]).returncode == 0  # there is such a question
    assert json.loads(tachograph("questions", *complaint.split(), "--json").stdout) == answer


def test_what_is_no_complaint():
    for words in (["stepz"], ["kernel"], ["zebra", "crossing"]):
        result = tachograph("questions", *words)
        assert result.returncode == 2 and result.stdout == ""
    assert "did you mean steps?" in tachograph("questions", "stepz").stderr


def event(name, cat, ts, dur, **args):
    return {"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def test_checklist(tmp_path):
    """A trace of twelve steps with shapes; no stacks, no modules. Then the missing artefacts appear."""
    events = []
    for i in range(12):
        events.append(event(f"ProfilerStep#{i}", "user_annotation", 100 * i, 90))
        events.append(event("forward", "user_annotation", 100 * i + 1, 50))
        events.append(event("aten::mm", "cpu_op", 100 * i + 2, 40, **{"Input Dims": [[2, 3], [3, 4]]}))
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))

    def states():
        result = tachograph("checklist", folder, "--json")
        rows = json.loads(result.stdout)["rows"]
        return result.returncode, {row[1]: row[2] for row in rows}, rows

    status, state, rows = states()
    assert status == 1 and {row[0] for row in rows} == {"baseline", "type", "component", "operation", "verification"}
    missing = {item for item, found in state.items() if found == "missing"}
    assert missing == {
        "a measured baseline, with its target",
        "the conditions it was measured under",
        "modules of the model",
        "lines of the program",
        "a comparison with the run before the change",
    }
    for _group, _item, found, artefact, cure in rows:
        assert (artefact is None) == (found == "missing") and (cure is None) == (found == "pass")
    for name in ("baseline.json", "conditions.json", "diff.json"):
        (folder / name).write_text("{}")
    status, state, rows = states()
    assert {item for item, found in state.items() if found == "missing"} == {
        "modules of the model",
        "lines of the program",
    }
    assert pathlib.Path(rows[0][3]) == folder / "baseline.json"
