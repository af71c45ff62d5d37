"""`tachograph run --live`: the program's streams and exit status are its own, figures come once a second, and nothing
is recorded or left."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest
from tachograph import _record
from tachograph._watch.watcher import Output, Watcher

pytest.importorskip("torch")
TRAIN = """
import os, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("begun", sys.argv[1:], flush=True)
end = time.monotonic() + 900
while not os.path.exists("end") and time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.002)
print("done", file=sys.stderr, flush=True)
sys.exit(5)
"""


@pytest.fixture
def live(tmp_path, tachograph_path):
    """Starts the command in a folder with train.py, and afterwards nothing of it is left there."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable, "TMPDIR": str(tmp_path / "temporary")}

    def start(*words):
        return subprocess.Popen(
            [tachograph_path, "run", "--live", *words], cwd=tmp_path, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it in what it starts with &
        )  # fmt: skip

    yield start
    assert not list((tmp_path / "temporary").glob("tachograph*"))
    assert not (tmp_path / "tachograph-runs").exists()


def test_lines_on_standard_error(live, tmp_path):
    command = live("train.py", "--more")
    lines = []
    parts = (" step ", "optimizer", *(() if _record.frames() else ("train.py(",)))
    while not lines or not all(part in lines[-1] for part in parts):
        lines.append(command.stderr.readline())
        assert lines[-1] and len(lines) < 900, lines
    (tmp_path / "end").touch()
    out, said = command.communicate(timeout=600)
    assert command.returncode == 5 and out == "begun ['--more']\n"
    lines += said.splitlines()
    refused = f"   lines not known: {_record.frames()}"
    assert sum(refused in line for line in lines) == (_record.frames() is not None), lines
    assert lines.count("done") == 1 and all(line[2:3] == ":" for line in lines if line != "done"), lines


def rows_until_steps(command):
    rows = [{"steps": {}}]
    while rows[-1]["steps"].get("count", 0) < 20:
        rows.append(json.loads(command.stdout.readline()))
        assert len(rows) < 900, rows[-1]
    return rows[1:]


def test_objects_on_standard_output(live, tmp_path):
    command = live("--json", "train.py")
    last = rows_until_steps(command)[-1]
    (tmp_path / "end").touch()
    _, said = command.communicate(timeout=600)
    assert command.returncode == 5 and "begun []\n" in said and "done\n" in said
    assert last["steps"]["source"] == "optimizer steps" and last["steps"]["median_ms"] > 2
    assert last["command"].endswith("train.py")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_the_programs(live, number):
    command = live("train.py")
    while " step " not in command.stderr.readline():
        assert command.poll() is None
    command.send_signal(number)
    _, said = command.communicate(timeout=600)
    assert command.returncode == 128 + number
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)


def test_other_programs(live):
    command = live("--", "sh", "-c", "echo one; exit 3")
    out, said = command.communicate(timeout=600)
    assert command.returncode == 3 and out == "one\n"
    assert said == "tachograph: the program never imported torch, so there was nothing to show\n"
    command = live("--", "./no-such-program")
    _, said = command.communicate(timeout=600)
    assert (
        command.returncode == 127
        and said == "tachograph: './no-such-program' cannot be started: No such file or directory\n"
    )
    command = live("--steps", "5", "train.py")
    _, said = command.communicate(timeout=600)
    assert command.returncode == 2 and "--live shows a program and records nothing: leave out --steps" in said


def test_one_of_several_processes(live, tmp_path):
    """A launcher of ranks, which are two: the first is shown."""
    (tmp_path / "ranks.py").write_text(
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env={**os.environ, 'RANK': str(i)}) for i in (1, 0)]\n"
        "sys.exit(sum(rank.wait() for rank in ranks))\n"
    )
    command = live("--json", "ranks.py")
    rows = rows_until_steps(command)
    (tmp_path / "end").touch()
    _, said = command.communicate(timeout=600)
    assert command.returncode == 10 and said.count("done") == 2, said
    assert len({row["pid"] for row in rows}) == 1


def test_a_program_that_has_not_said_a_word_yet_is_waited_for(tmp_path):
    """Its first line of the log comes after the file that names it; the last one ends the watch."""
    said = io.StringIO()
    log = tmp_path / "raw" / f"log-{os.getpid()}"
    log.parent.mkdir()
    watcher = Watcher(str(tmp_path), os.getpid(), None, Output("json", False, 0, said, takes_all=False))
    assert watcher.look()
    log.write_text("watches\n")
    assert watcher.look()
    log.write_text("watches\nend\n")
    assert not watcher.look() and watcher.said.endswith("reports nothing more")
