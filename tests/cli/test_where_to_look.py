"""From a complaint to the command that looks into it, and the checklist of a profile."""

import json
import os
import pathlib
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")


def tachograph(*words, **options):
    return subprocess.run([TACHOGRAPH, *map(str, words)], capture_output=True, text=True, timeout=600, **options)


@pytest.mark.parametrize(
    "complaint, command",
    [
        ("training slow", "tachograph report FILE"),
        ("low GPU use, yet slow", "tachograph ask FILE gaps"),
        ("which part is the bottleneck?", "tachograph ask FILE modules"),
        ("did the change help", "tachograph diff BEFORE AFTER"),
        ("memory is too high", "tachograph memory FILE"),
        ("memory grows every step", "tachograph ask FILE leaks"),
        ("a memory leak", "tachograph ask FILE leaks"),
        ("which phase is slow, forward or backward?", "tachograph ask FILE phases"),
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
        events.append(
            event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", 100 * i, 1)
        )
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
        "steps behind the warm-up",
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
        "steps behind the warm-up",
        "modules of the model",
        "lines of the program",
    }
    assert pathlib.Path(rows[0][3]) == folder / "baseline.json"


@pytest.mark.parametrize(
    "first, loader, met, undecided, target",
    [
        (0, False, None, "a baseline, a warm-up, a check of the loader", None),
        (3, True, None, "a baseline", None),
        (3, False, False, "a check of the loader", "the target is not met: a median of 20, and a target of 15"),
        (3, True, True, None, "the target is met: a median of 20, and a target of 25"),
    ],
)
def test_no_conclusion_without_what_it_stands_on(tmp_path, first, loader, met, undecided, target):
    events = []
    for i in range(4):
        events.append(event(f"ProfilerStep#{first + i}", "user_annotation", 100 * i, 90))
        events.append(event("aten::mm", "cpu_op", 100 * i + 20, 40))
        if loader:
            name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            events.append(event(name, "user_annotation", 100 * i + 1, 9))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    if met is not None:
        sheet = {"metric": "step_ms", "median": 20.0, "target": 25.0 if met else 15.0, "met": met}
        (tmp_path / "baseline.json").write_text(json.dumps(sheet, indent=2))
    notes = json.loads(tachograph("checklist", tmp_path, "--json").stdout)["notes"]
    said = [note for note in notes if note.startswith("no conclusion yet")]
    assert said == ([f"no conclusion yet: {undecided} missing"] if undecided else [])
    said = [note for note in notes if note.startswith("the target is")]
    assert len(said) == bool(target) and (not target or said[0].startswith(target))
    assert not met or "Stop here" in said[0]


def test_what_the_checklist_says_to_type_is_whole(tmp_path):
    (tmp_path / "a.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}'
    )
    done = tachograph("checklist", tmp_path, "--width", "80")
    assert "tachograph diff BEFORE AFTER --json -o diff.json" in done.stdout, done.stdout
    assert "record more steps: tachograph run --steps 20" in done.stdout
