"""Which line sets torch's number of threads, or which variable: the fact in a recording, and that nothing stays."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from tachograph._collect import metadata
from tachograph._launch.threads import ThreadSettings


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.setattr(metadata, "threads_set_at", None)
    before, threads = torch.set_num_threads, torch.get_num_threads()
    watched = ThreadSettings(torch)
    yield watched
    watched.remove()
    torch.set_num_threads(threads)
    assert torch.set_num_threads is before


def test_the_last_line_counts(settings, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(2)
    torch.set_num_threads(1)
    line = sys._getframe().f_lineno - 1
    place = metadata.conditions()["threads_from"]
    assert place.endswith(f"test_thread_settings.py({line}): test_the_last_line_counts")
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        torch.set_num_threads(-1)
    assert metadata.conditions()["threads_from"] == place


@pytest.mark.parametrize(("name", "value", "said"), [("OMP_NUM_THREADS", 1, "OMP_NUM_THREADS"), ("MKL_NUM_THREADS", 1,
                         "MKL_NUM_THREADS"), ("OMP_NUM_THREADS", 3, None), ("SOMETHING", 1, None)])  # fmt: skip
def test_a_variable_of_the_environment(monkeypatch, name, value, said):
    for other in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(value))
    assert metadata._threads_from(1) == said


def test_what_the_program_puts_there_stays(monkeypatch):
    before, watched = torch.set_num_threads, ThreadSettings(torch)
    own = lambda n: None
    torch.set_num_threads = own
    watched.remove()
    assert torch.set_num_threads is own
    torch.set_num_threads = before


PROGRAM = """import torch

def prepare():
    torch.set_num_threads(1)  # line 4

prepare()
before = torch.set_num_threads
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(60):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("left" if torch.set_num_threads is before else "gone")
"""


def test_a_run_says_the_line(tachograph_path, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(
        [tachograph_path, "run", "--steps", "5", "-o", tmp_path / "out", tmp_path / "train.py"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600,
    )  # fmt: skip
    assert "gone" in done.stdout, done.stdout + done.stderr
    asked = subprocess.run(
        [tachograph_path, "ask", tmp_path / "out" / "trace.tacho", "document", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = json.loads(asked.stdout)["rows"]
    conditions = next(json.loads(value) for row in rows for key, value in zip(row, row[1:]) if key == "conditions")
    assert conditions["threads_from"] == "train.py(4): prepare"
