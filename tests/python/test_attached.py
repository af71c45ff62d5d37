"""What `tachograph attach` runs inside a program: it waits for imports and compiling, imports nothing but tachograph,
does not touch the import system, and no step waits for a file."""

import json
import os
import sys
import threading

import pytest
import tachograph

torch = pytest.importorskip("torch")
from attach_moments import comparable
from own_process import comes
from tachograph._launch import enter

SLOW = "import test_attached_gate\ntest_attached_gate.begun.set()\ntest_attached_gate.goes_on.wait(600)\n"


class Gate:
    """Stands in sys.modules for a module that stops in the middle of its import until it is let on."""

    def __init__(self):
        self.begun, self.goes_on = threading.Event(), threading.Event()


@pytest.fixture
def importing(tmp_path, monkeypatch):
    """A thread that imports test_attached_slow and has come half through it."""
    (tmp_path / "test_attached_slow.py").write_text(SLOW)
    gate = Gate()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "test_attached_gate", gate)
    thread = threading.Thread(target=__import__, args=("test_attached_slow",))
    thread.start()
    assert gate.begun.wait(600)
    yield gate
    gate.goes_on.set()
    thread.join()
    sys.modules.pop("test_attached_slow", None)


def entered(folder):
    """The log after enter.enter() in a thread of its own."""
    (folder / "raw").mkdir()
    before = sys.path[:], sys.meta_path[:], sys.path_hooks[:]
    thread = threading.Thread(target=enter.enter, args=(str(folder / "home"), str(folder), "{}"))
    thread.start()
    thread.join(600)
    assert not thread.is_alive() and (sys.path, sys.meta_path, sys.path_hooks) == before
    return (folder / "raw" / f"log-{os.getpid()}").read_text().splitlines()


def test_what_forbids_to_begin(importing):
    assert enter.what_it_does(sys.modules) == "is importing test_attached_slow"
    importing.goes_on.set()
    assert comes(lambda: enter.what_it_does(sys.modules) == "")


def test_compiling_forbids_it(monkeypatch):
    lock, held, done = threading.RLock(), threading.Event(), threading.Event()
    convert = type(sys)("torch._dynamo.convert_frame")
    convert.compile_lock = lock
    monkeypatch.setitem(sys.modules, convert.__name__, convert)

    def hold():
        with lock:
            held.set()
            done.wait(600)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(600)
    assert enter.what_it_does(sys.modules) == "is compiling"
    done.set()
    thread.join()
    assert enter.what_it_does(sys.modules) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [("threading._SHUTTING_DOWN", "ends"), ("torch.__spec__._initializing", "has not imported torch")],
)
def test_a_program_that_begins_or_ends(monkeypatch, changed, said):
    monkeypatch.setattr(changed, True, raising=False)
    assert enter.what_it_does(sys.modules) == said


def test_the_wait_has_an_end(tmp_path, importing, monkeypatch):
    monkeypatch.setattr(enter, "WAIT_SECONDS", 0.05)
    waits, note, end = entered(tmp_path)
    assert (waits, end) == ("waits is importing test_attached_slow", "end")
    assert note == (
        "note not recorded: the program is importing test_attached_slow: waited 0 s, nothing was recorded, and it goes on "
        "as before; try again when it works"
    )


def test_the_wait_is_stopped(tmp_path, importing):
    (tmp_path / "stop").touch()
    lines = entered(tmp_path)
    assert lines[-2:] == [
        "note not recorded: stopped while the program is importing test_attached_slow; it goes on as before",
        "end",
    ]


PROGRAM = """
import json, os, sys, tempfile, threading, time
import torch
from tachograph._launch import enter
imported, changes = [], []
def audit(event, arguments):
    if event == "import" and threading.get_ident() == thread:
        imported.append(arguments[0])
thread = None
sys.addaudithook(audit)
state = lambda: (sys.path[:], sys.meta_path[:], sys.path_hooks[:])
before = state()
folder = tempfile.mkdtemp()
os.mkdir(folder + "/raw")
settings = {"dir": folder, "session": 0, "preset": "deep", "steps": 4, "seconds": 30.0, "bytes": 64 << 20, "memory": 0}
stepped, closes, over = [], [], threading.Event()
def load(*given):
    from tachograph._launch import recorders
    close = recorders.NativeRecorder.close
    def slow_close(recorder):
        # the program does five steps more meanwhile: it does not wait for this
        until = len(stepped) + 5
        for _ in range(3000):
            if len(stepped) < until:
                time.sleep(0.01)
        closes.append(len(stepped) >= until)
        return close(recorder)
    recorders.NativeRecorder.close = slow_close
    return loads(*given)
loads, enter.load = enter.load, load
def work():
    global thread
    thread = threading.get_ident()
    enter.enter(HOME, folder, json.dumps(settings))
    over.set()
recording = threading.Thread(target=work)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recording.start()
while recording.is_alive():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    stepped.append(1)
    over.wait(0.002)
    if state() != before:
        changes.append(state())
print(json.dumps({"imported": imported, "changes": repr(changes), "closes": closes,
                  "log": open(f"{folder}/raw/log-{os.getpid()}").read()}))
"""


def test_nothing_but_tachograph_is_imported_and_no_step_waits(forks):
    home = os.path.dirname(os.path.dirname(tachograph.__file__))
    done = forks.run(f"HOME = {home!r}\n" + PROGRAM)
    assert done.returncode == 0 and comparable(done.stderr) == "", done.stderr
    said = json.loads(done.stdout)
    assert "closed window" in said["log"] and said["log"].endswith("end\n"), said["log"]
    assert [name for name in said["imported"] if name.partition(".")[0] != "tachograph"] == []
    assert said["changes"] == "[]" and said["closes"] == [True], said


def test_a_step_that_ends_while_hooks_are_put_on_waits_for_them(tmp_path, monkeypatch):
    """A thread of the program meets the first hook before the object that put it on is known to anybody."""
    from tachograph._launch import attached, session, steps

    met = []

    def meets_a_hook(finder):
        met.append(threading.Thread(target=finder.on_boundary))
        met[0].start()
        met[0].join(0.05)

    monkeypatch.setattr(steps.StepFinder, "_watch_modules", meets_a_hook)
    (tmp_path / "raw").mkdir()
    settings = {"attached": True, "preset": "lean", "bytes": 1 << 20, "keep": "first", "dir": str(tmp_path), "steps": 3,
                "seconds": 60.0, "memory": 0, "session": 0}  # fmt: skip
    log = session.Log(str(tmp_path))
    recorded = attached.AttachedSession(settings, log)
    met[0].join(600)
    recorded._leave()
    log.close()
    written = (tmp_path / "raw" / f"log-{os.getpid()}").read_text()
    assert not met[0].is_alive() and "finder" not in written, written
