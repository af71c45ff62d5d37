"""TACHOGRAPH_REPLACE=1: programs that import torch.profiler get our classes, in every process, without an edit."""

import importlib.util
import json
import os
import pathlib
import re
import select
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from forks import Forks
from test_usage import CHECKS, FOLDER, SCRIPTS, TIMED, Done

ON = {**os.environ, "TACHOGRAPH_REPLACE": "1", "OMP_NUM_THREADS": "1", "TACHOGRAPH_BACKEND": "native"}


def run(code, environment, cwd=None):
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done


def unedited(script):
    """The script with the imports that it has for torch.profiler; None where it uses what torch.profiler lacks."""
    text = (FOLDER / f"{script}.py").read_text()
    text = re.sub(r"^from tachograph import", "from torch.profiler import", text, flags=re.M)
    text = re.sub(r"^import tachograph as tg$", "import torch.profiler as tg", text, flags=re.M)
    used = set(re.findall(r"\btg\.(\w+)", text))
    for names in re.findall(r"^from torch\.profiler import (.*)$", text, flags=re.M):
        used |= set(names.replace(" ", "").split(","))
    is_pure = "tachograph" not in re.sub(r'""".*?"""', "", text, flags=re.S)
    return text if is_pure and used and all(hasattr(torch.profiler, name) for name in used) else None


UNEDITED = {s: text for s in SCRIPTS if s not in TIMED and not s.endswith("_ranks") and (text := unedited(s))}


@pytest.fixture(scope="module")
def replaced():
    """Forks of a process that was started with the variable and has imported torch."""
    before = dict(os.environ)
    os.environ.update(ON)
    try:
        with Forks("torch", "torch.profiler", path=[FOLDER]) as forks:
            forks.start()
            os.environ.clear()
            os.environ.update(before)
            yield forks
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_enough_scripts_need_no_edit():
    assert len(UNEDITED) >= 15


def every_third(names):
    """The other scripts are long tests. test_usage runs each script with its import edited."""
    return [pytest.param(name, marks=pytest.mark.long) if i % 3 else name for i, name in enumerate(sorted(names))]


@pytest.mark.parametrize("script", every_third(UNEDITED))
def test_unedited_script(replaced, script, tmp_path):
    program, work = tmp_path / f"{script}.py", tmp_path / "work"
    program.write_text(UNEDITED[script])
    work.mkdir()
    done = replaced.run(script=program, cwd=work)
    assert done.returncode == 0, done.stderr
    CHECKS[script](Done(done.stdout, done.stderr, work, "native"))


def test_names_are_ours_from_the_import_on():
    code = """
import sys
assert not any(name.split(".")[0] == "tachograph" for name in sys.modules), "imported before torch"
import torch
from torch.profiler import profile, record_function
from torch.profiler.profiler import profile as inner, _KinetoProfile
import tachograph.profiler as ours
assert profile is inner is ours.profile and record_function is ours.record_function
assert _KinetoProfile is ours._KinetoProfile
assert torch.autograd.profiler.profile.__module__ == "torch.autograd.profiler"
with profile(activities=[torch.profiler.ProfilerActivity.CPU], backend="kineto") as prof:
    torch.ones(3).sin()
print([e.name for e in prof.events()].count("aten::sin"))
"""
    assert run(code, ON).stdout == "1\n"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_off_is_off(value):
    environment = {name: text for name, text in ON.items() if name != "TACHOGRAPH_REPLACE"}
    if value is not None:
        environment["TACHOGRAPH_REPLACE"] = value
    code = """
import sys, torch
print(torch.profiler.profile.__module__, [m for m in sys.modules if "tachograph" in m],
      [f for f in sys.meta_path if "tachograph" in type(f).__module__])
"""
    assert run(code, environment).stdout == "torch.profiler.profiler [] []\n"


def test_a_broken_installation_leaves_the_program_alone(tmp_path):
    """The start file beside a package that cannot be imported: one warning, and torch's own profiler."""
    package = tmp_path / "tachograph"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('half an installation')\n")
    source = pathlib.Path(importlib.util.find_spec("_tachograph_replace").origin)  # an import of it replaces
    (package / "_imports.py").write_text((source.parent / "tachograph" / "_imports.py").read_text())
    (tmp_path / "_tachograph_replace.py").write_text(source.read_text())
    code = "import _tachograph_replace, torch; print(torch.profiler.profile.__module__)"
    off = {**ON, "TACHOGRAPH_REPLACE": "0", "PYTHONPATH": str(tmp_path)}
    done = run(code, off)
    assert done.stdout == "torch.profiler.profiler\n"
    assert "torch.profiler stays torch's own: half an installation" in done.stderr


def test_doctor():
    code = "from tachograph import _doctor; print([row[1:3] for row in _doctor.rows() if row[0] == 'torch.profiler names'])"
    off = {**ON, "TACHOGRAPH_REPLACE": "0"}
    assert run(code, ON).stdout == "[('ours in every Python process that inherits TACHOGRAPH_REPLACE', True)]\n"
    assert run(code, off).stdout == "[]\n"
    late = "import os; os.environ['TACHOGRAPH_REPLACE'] = '1'; " + code  # the start file is read at the start only
    assert run(late, off).stdout == '[("torch\'s own, although TACHOGRAPH_REPLACE is set", False)]\n'


SERVER = """
import os, sys
import torch, torch.profiler

class Wrapper:
    '''As serving engines wrap it: made once, started and stopped by requests, a step for each batch.'''

    def __init__(self, folder, name):
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_stack=True, profile_memory=False,
            on_trace_ready=torch.profiler.tensorboard_trace_handler(folder, worker_name=name, use_gzip=True))

    def start(self):
        self.profiler.start()

    def step(self):
        self.profiler.step()

    def stop(self):
        self.profiler.stop()
        print(self.profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))

def worker(number, folder):
    wrapper, layer = Wrapper(folder, f"rank{number}"), torch.nn.Linear(8, 8)
    wrapper.start()
    for _ in range(4):
        with torch.profiler.record_function("decode"):
            layer(torch.ones(2, 8))
        wrapper.step()
    wrapper.stop()

if __name__ == "__main__":
    import torch.multiprocessing as mp
    mp.start_processes(worker, args=(sys.argv[1],), nprocs=3, start_method="spawn")
"""


def test_a_serving_wrapper_in_three_processes(tmp_path):
    import gzip

    (tmp_path / "server.py").write_text(SERVER)
    done = subprocess.run(
        [sys.executable, "server.py", "log"], cwd=tmp_path, env=ON, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Self CPU time total") == 3 and done.stdout.count("decode") == 3
    files = sorted((tmp_path / "log").glob("rank*.pt.trace.json.gz"))
    assert len(files) == 3 and len({f.name.split(".")[0] for f in files}) == 3
    for file in files:
        document = json.loads(gzip.decompress(file.read_bytes()))
        assert [e["name"] for e in document["traceEvents"]].count("decode") == 4
        assert "conditions" in document, "torch's own collector wrote this file"


STARTS, HANG_SECONDS = 1000, 60  # so long without a start is a hang, however long all of them take


def started_until_the_end(code, environment):
    """How many lines a program wrote, and its exit status: None when it wrote nothing for HANG_SECONDS."""
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as program:
        count = 0
        while select.select([program.stdout], [], [], HANG_SECONDS)[0]:
            written = os.read(program.stdout.fileno(), 65536)
            if not written:
                return count, program.wait(HANG_SECONDS)
            count += written.count(b"\n")
        program.kill()
        return count, None


@pytest.mark.long
def test_a_thousand_starts_with_stacks_beside_busy_threads():
    """torch's own collector can hang here: it takes the GIL while it holds a lock that other threads wait for."""
    code = f"""
import sys, threading, torch, torch.profiler
sys.setswitchinterval(2e-4)  # 16 threads that want the GIL take it in turns of 5 ms otherwise
ends = threading.Event()
def busy():
    x = torch.ones(4)
    while not ends.is_set():
        x.sin().add(1)
threads = [threading.Thread(target=busy) for _ in range(16)]
for thread in threads: thread.start()
for number in range({STARTS}):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, record_shapes=True):
        torch.ones(2).sin()
    print(number, flush=True)
ends.set()
for thread in threads: thread.join()
"""
    assert started_until_the_end(code, ON) == (STARTS, 0)


def test_a_hang_is_found(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "HANG_SECONDS", 2)
    assert started_until_the_end("import time; print(1, flush=True); time.sleep(600)", dict(os.environ)) == (1, None)
