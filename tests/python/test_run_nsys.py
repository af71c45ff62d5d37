"""`tachograph run --nsys`: the program runs under nsys, here one that writes down how it was called and obeys."""

import os
import shlex
import stat
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("tachograph._record")
TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
PROGRAM = """
import sys, torch
o = torch.optim.SGD([torch.ones(4, requires_grad=True)], lr=0.1)
for i in range(60):
    o.zero_grad()
    torch.ones(3).sum()
    o.step()
sys.exit(int(sys.argv[1]))
"""


def run(tmp_path, path, *words, output=("-o", "out")):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "PATH": path}
    command = [TACHOGRAPH, "run", "--nsys", *output, *words]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)


def test_the_program_runs_under_nsys_and_is_recorded(tmp_path):
    nsys = tmp_path / "bin of mine" / "nsys"
    nsys.parent.mkdir()
    said = tmp_path / "said"
    nsys.write_text(f'#!/bin/sh\necho "$@" >{shlex.quote(str(said))}\nshift 5\nexec "$@"\n')
    nsys.chmod(nsys.stat().st_mode | stat.S_IXUSR)
    done = run(tmp_path, f"{nsys.parent}{os.pathsep}{os.environ['PATH']}", "program.py", "7")
    assert said.read_text().split() == [
        "profile", "-t", "cuda,nvtx,osrt", "-o", "out/nsys", sys.executable, "program.py", "7",
    ]  # fmt: skip
    assert done.returncode == 7, done.stderr
    asked = [TACHOGRAPH, "ask", "out", "ops", "--where", "name = 'aten::sum'", "--json"]
    assert '"aten::sum"' in subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=600).stdout


def test_without_nsys_it_says_so_and_runs_nothing(tmp_path):
    (tmp_path / "nsys").mkdir()  # a folder is no program
    done = run(tmp_path, str(tmp_path), "program.py", "0")
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert done.stderr.splitlines()[0] == (
        "tachograph: --nsys needs nsys on PATH, which Nsight Systems brings: install it, or leave out --nsys"
    )


@pytest.mark.long
def test_nothing_is_recorded_live_under_nsys(tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\n")
    nsys.chmod(0o755)
    done = run(tmp_path, f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "--live", "program.py", "0", output=())
    assert done.returncode == 2 and "leave out --nsys" in done.stderr
