"""examples/plain.c: a C program without Python and torch records itself, and the command line reads it."""

import json
import pathlib
import subprocess

import pytest


@pytest.fixture
def recording(tachograph_path, tmp_path):
    program = pathlib.Path(tachograph_path).with_name("plain")
    if not program.exists():
        pytest.skip("examples/plain.c is not built beside the command line")
    path = tmp_path / "plain.tacho"
    run = subprocess.run([program, path], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{path}: ") and run.stdout.endswith(" 0 lost\n")
    return path


def test_export(tachograph, recording):
    run = tachograph("export", recording, "--to", "chrome", "-o", "-")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    events = document["traceEvents"]
    assert document["program"] == "examples/plain.c"
    spans = {}
    for event in events:
        if event["ph"] == "X" and event["cat"] == "user_annotation":
            spans.setdefault(event["name"], []).append(event)
    steps = [spans[f"ProfilerStep#{i}"][0] for i in range(3)]
    assert len(spans["load"]) == 3 and len(spans["compute"]) == 3
    for step, load, compute in zip(steps, spans["load"], sorted(spans["compute"], key=lambda e: e["ts"])):
        assert step["ts"] <= load["ts"] and load["ts"] + load["dur"] <= step["ts"] + step["dur"] + 0.002
        assert load["dur"] >= 4900 and compute["dur"] >= 2900
        assert load["tid"] == step["tid"] != compute["tid"]
    assert {e["tid"] for e in events if e["name"] == "thread_name" and "worker" in e["args"]["name"]} == {
        e["tid"] for e in spans["compute"]
    }
    assert [e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "items"] == [32, 64, 96]


def test_steps(tachograph, recording):
    run = tachograph("ask", recording, "steps", "--json")
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["rows"]) == 3
