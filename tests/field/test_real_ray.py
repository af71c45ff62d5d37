"""A Ray cluster of four nodes on this machine: answers as of one machine, also with a node killed; what breaks is
repeated, named, or said in a sentence. Skipped where no Python has Ray: make check puts one into
.venv-check."""

import json
import pathlib
import subprocess
import sys

import pytest
import tachograph as tg

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import cluster as bench


@pytest.fixture(scope="module")
def facts(tmp_path_factory, tachograph_path):
    python = bench.python_with_ray()
    if not python:
        pytest.skip("no Python with Ray: make venv-check")
    words = [*python[0], str(ROOT / "tests/field/ray_facts.py"), str(tmp_path_factory.mktemp("ray")), tachograph_path]
    done = subprocess.run(words, env=python[1], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_answers_are_those_of_one_machine(facts):
    assert facts["ray"] == facts["one"] and len(facts["one"]["ranks"]) == 64


def test_a_killed_node_loses_no_rank(facts):
    assert facts["killed node"] == facts["one"]


def test_a_worker_that_dies_again_and_again_is_given_up(facts):
    assert "died" in facts["killed worker"] or "crashed" in facts["killed worker"]


def test_a_connection_that_breaks_is_tried_again(facts):
    assert facts["twice"] is None


def test_the_command_names_the_missing_rank(facts):
    said = facts["command"]
    assert said["status"] == 0, said["stderr"]
    answer = json.loads(said["stdout"])
    assert len(answer["rows"]) == 63
    (note,) = [note for note in answer["notes"] if note.startswith("missing: ")]
    assert "rank0007.json" in note and "not a trace" in note


def test_sentences(facts):
    assert (
        facts["nobody"].startswith("no Ray cluster answers at 127.0.0.1:9 ") and "ray start --head" in facts["nobody"]
    )
    assert f"has tachograph {tg.__version__} (Python " in facts["versions"] and "here is 9.9" in facts["versions"]
    assert facts["nothing"].startswith("no ranks match ") and "as the workers see it" in facts["nothing"]
