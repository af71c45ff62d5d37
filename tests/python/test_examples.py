"""tachograph examples: each script runs as it is, in seconds on a CPU, and shows what it says it shows."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("tachograph._record")
from tachograph import _examples

SCRIPTS = {path.stem: path for path in (pathlib.Path(_examples.__file__).parent / "scripts").glob("*.py")}
# script → what must stand in its output
SHOWS = {
    "first_window": [r"Self CPU time total", r"backward +.* 3 *$"],
    "shares_of_classes": [r"^conv +\d", r"GFLOP"],
    "item_in_forward": [r"with reads 100 calls of item", r"item_in_forward.py", r"without 0 calls"],
    "memory_of_layers": [r"parameter", r"optimizer_state", r"saving_"],
    "steady_baseline": [r"95 % interval", r"samples a second"],
    "loader_or_compute": [r"0 workers: (\d\d) %", r"2 workers: \d+ %"],
    "modules_and_phases": [r"Linear", r"backward"],
    "whole_investigation": [r"whole_investigation.py", r"a step: .* faster"],
}
NEED_MODULES = {"memory_of_layers", "modules_and_phases"}


def command(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "tachograph", "examples", *words], cwd=cwd, capture_output=True, text=True, timeout=600
    )


def test_they_are_listed_printed_and_written(tmp_path):
    listed = command(cwd=tmp_path).stdout
    assert [line.split()[0] for line in listed.splitlines() if line][:-1] == sorted(SCRIPTS)
    assert command("steady_baseline", cwd=tmp_path).stdout == SCRIPTS["steady_baseline"].read_text()
    assert command("-o", "all", cwd=tmp_path).returncode == 0
    assert {p.stem: p.read_text() for p in (tmp_path / "all").iterdir()} == {
        n: p.read_text() for n, p in SCRIPTS.items()
    }
    again = command("steady_baseline", "-o", "all", cwd=tmp_path)  # it may have been changed
    assert again.returncode == 4 and "File exists" in again.stderr
    unknown = command("nothing", cwd=tmp_path)
    assert unknown.returncode == 2 and "steady_baseline" in unknown.stderr


def test_each_is_known_here():
    assert set(SHOWS) == set(SCRIPTS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.frames] if name in NEED_MODULES else []) for name in sorted(SCRIPTS)]
)
def test_script(forks, tmp_path, name):
    assert command(name, "-o", ".", cwd=tmp_path).returncode == 0
    done = forks.run(script=tmp_path / f"{name}.py", cwd=tmp_path, env={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    for pattern in SHOWS[name]:
        assert re.search(pattern, done.stdout, re.M), (pattern, done.stdout)
