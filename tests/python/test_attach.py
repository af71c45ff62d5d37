"""`tachograph attach`: a program that runs already is recorded, computes what it would have computed, and is afterwards
as it was; a sentence states why a program cannot be attached to."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import tachograph as tg
from own_process import comes, state, tasks

pytest.importorskip("torch")

LOOP = """
import json, os, pathlib, sys, threading, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(8, 16), torch.randn(8, 1)
losses, end, most = [], pathlib.Path("end"), int(sys.argv[1])
threads = len(os.listdir("/proc/self/task"))
while len(losses) < most and not end.exists():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if len(losses) == 5:
        pathlib.Path("runs").touch()
    time.sleep(0.002)
from torch.nn.modules import module
from torch.optim import optimizer as optim
record = sys.modules.get("tachograph._record")
left = {
    "threads": [t.name for t in threading.enumerate()],
    "tasks": len(os.listdir("/proc/self/task")) - threads,
    "files": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")],
    "hooks": len(module._global_forward_pre_hooks) + len(optim._global_optimizer_post_hooks)
    + ("_zero_grad_profile_name" in vars(optim.Optimizer)),
    "on": [what for what, off in record.self_check().items() if not off and what != "clean"] if record else [],
    "path": sys.path, "names": sorted(globals()),
}
print(json.dumps({"losses": losses, "left": left}))
"""


class Target:
    """A program that runs in a folder of its own until it is told to end."""

    def __init__(self, folder, text=LOOP, words=("1000000",), wait="runs", **options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "loop.py").write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "loop.py", *words], cwd=folder, stdout=subprocess.PIPE, text=True, **options
        )
        self.pid = str(self.process.pid)
        for _ in range(30000):
            if not wait or (folder / wait).exists():
                return
            assert self.process.poll() is None, "the program ended early"
            time.sleep(0.01)
        pytest.fail("the program does not come to run")

    def result(self, timeout=600):
        out, _ = self.process.communicate(timeout=timeout)
        return json.loads(out) if out else None

    def end(self):
        (self.folder / "end").touch()
        return self.result()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def attached(tachograph, *words, **options):
    done = tachograph("attach", *words, env={"TACHOGRAPH_PYTHON": sys.executable}, **options)
    if "does not let this user look into" in done.stderr or "forbids looking into" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


def begun(target, folder, *words):
    """The command, started, and the first line that it says."""
    command = subprocess.Popen(
        [sys.executable, "-m", "tachograph", "attach", target.pid, *words, "-o", str(folder)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = command.stderr.readline()
    if "look into" in said:
        command.communicate()
        pytest.skip(said)
    return command, said


def test_three_times_and_nothing_is_left(tmp_path, tachograph):
    with Target(tmp_path / "run") as target:
        for i in range(3):
            done = attached(tachograph, target.pid, "--steps", "6", "-o", tmp_path / str(i))
            assert done.returncode == 0, done.stderr
            assert re.search(
                r"attached +to process \d+ \(loop.py\), which stood still for at most [\d.]+ ms", done.stderr
            )
            assert "recorded   steps 0 to 5 of" in done.stderr and "(optimizer steps)" in done.stderr
            assert sorted(p.name for p in (tmp_path / str(i)).iterdir()) == ["trace.tacho"]
            with tg.open(tmp_path / str(i) / "trace.tacho") as trace:
                rows = [row for row in trace.ask("ops", by="step") if row["name"] == "aten::addmm"]
                assert [row["calls"] for row in rows if "ProfilerStep" in row["group"]] == [2] * 6
        assert comes(lambda: tasks(target.pid)[1] == 0)  # the thread has said that it ends
        ended = target.end()
    left = ended["left"]
    assert left["threads"] == ["MainThread"] and left["tasks"] == 0 and left["hooks"] == 0 and left["on"] == []
    assert not [file for file in left["files"] if str(tmp_path) in file]
    assert not [name for name in left["names"] if name in ("home", "settings", "begin", "tachograph")]
    with Target(tmp_path / "alone", words=(str(len(ended["losses"])),), wait="") as alone:
        assert alone.result()["losses"] == ended["losses"]


def test_seconds_without_steps_and_ctrl_c(tmp_path, tachograph):
    text = "import pathlib, torch\npathlib.Path('runs').touch()\nwhile not pathlib.Path('end').exists():\n    torch.ones(3) + 1\n"
    with Target(tmp_path / "run", text) as target:
        done = attached(tachograph, target.pid, "--seconds", "0.5", "-o", tmp_path / "a")
        assert done.returncode == 0 and "no steps were found" in done.stderr, done.stderr
        with tg.open(tmp_path / "a" / "trace.tacho") as trace:
            assert sum(r["calls"] for r in trace.ask("ops") if r["name"] == "aten::add") > 20
        command, said = begun(target, tmp_path / "b")
        while "attached" not in said:
            assert command.poll() is None
            said = command.stderr.readline()
        time.sleep(0.2)
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=600) == 0
        assert (tmp_path / "b" / "trace.tacho").exists()


def test_a_forward_in_the_middle_is_no_step(tmp_path, tachograph):
    text = """
import pathlib, time, torch
class Slow(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.01)
        return super().forward(x)
model = torch.nn.Sequential(*[Slow(4, 4) for _ in range(10)])
pathlib.Path('runs').touch()
with torch.no_grad():
    while not pathlib.Path('end').exists():
        model(torch.ones(1, 4))
"""
    with Target(tmp_path / "run", text) as target:
        done = attached(tachograph, target.pid, "--steps", "4", "-o", tmp_path / "a")
        assert done.returncode == 0 and "(calls of the model)" in done.stderr, done.stderr
        with tg.open(tmp_path / "a" / "trace.tacho") as trace:
            rows = [
                row["calls"]
                for row in trace.ask("ops", by="step")
                if row["name"] == "aten::linear" and "Step" in row["group"]
            ]
        assert rows == [10] * 4


@pytest.mark.skipif(not os.access("/proc/self/syscall", os.R_OK), reason="no /proc/self/syscall")
@pytest.mark.frames
def test_what_the_program_waits_for(tmp_path, tachograph):
    """Samples are of the thread whose steps are recorded: time that Python sleeps is not judged as work."""
    text = """
import pathlib, time, torch
def slow_read():
    time.sleep(0.03)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while not pathlib.Path('end').exists():
    slow_read()
    optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()
    pathlib.Path('runs').touch()
"""
    with Target(tmp_path / "run", text) as target:
        done = attached(tachograph, target.pid, "--steps", "12", "-o", tmp_path / "a")
        assert done.returncode == 0, done.stderr
        target.end()
    assert "Python loop" not in done.stderr, done.stderr
    with tg.open(tmp_path / "a" / "trace.tacho") as trace:
        rows = list(trace.ask("events", where="category == 'python_sample'", args="Call stack"))
    slept = sum(row["dur_ns"] for row in rows if row["name"] == "sleep" and "slow_read" in row["Call stack"])
    assert slept > 0.5 * 11 * 30e6, rows


def test_a_server_with_a_thread_for_each_request(tmp_path, tachograph):
    """Each call of the model is a step, on its own thread; all of them are counted."""
    text = """
import pathlib, threading, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
def serve():
    with torch.no_grad():
        model(torch.ones(1, 4))
while not pathlib.Path('end').exists():
    for _ in range(3):  # one after the other: where calls overlap, an operator is in the step that began last
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
    pathlib.Path('runs').touch()
    time.sleep(0.02)
"""
    with Target(tmp_path / "run", text) as target:
        done = attached(tachograph, target.pid, "--steps", "20", "-o", tmp_path / "a")
        assert done.returncode == 0, done.stderr
        target.end()
    said = re.search(r"recorded   steps (\d+) to (\d+) of (\d+) \((.*?)\)", done.stderr)
    assert said, done.stderr
    first, last, count = map(int, said.groups()[:3])
    assert last < count and last - first + 1 >= 20 and said[4] == "calls of the model on several threads"
    with tg.open(tmp_path / "a" / "trace.tacho") as trace:
        rows = [
            row["calls"]
            for row in trace.ask("ops", by="step")
            if row["name"] == "aten::addmm" and "Step" in row["group"]
        ]
    assert len(rows) >= 19 and set(rows) == {1}, rows


# ---- what cannot be attached to --------------------------------------------------------------


@pytest.mark.parametrize(
    "word, said",
    [("4194305", "there is no process 4194305"), ("train.py", "attach needs the number of a process, not 'train.py'")],
)
def test_no_process(tachograph, word, said):
    done = tachograph("attach", word)
    assert done.returncode and said in done.stderr


def test_other_programs(tmp_path, tachograph):
    with Target(
        tmp_path / "no_torch", "import pathlib, time\npathlib.Path('runs').touch()\ntime.sleep(600)\n"
    ) as target:
        done = attached(tachograph, target.pid)
        assert done.returncode and "(loop.py) has not loaded torch, so there is nothing to record" in done.stderr
    code = "import time; print(flush=True); time.sleep(600)  # and/or"
    text = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert text.stdout.readline() == b"\n"
        done = attached(tachograph, str(text.pid))
        assert f"process {text.pid} ({pathlib.Path(sys.executable).name}) has not loaded torch" in done.stderr
    finally:
        text.kill()
        text.communicate()
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        assert comes(lambda: state(sleeper.pid) == "S")
        done = attached(tachograph, str(sleeper.pid))
        assert done.returncode and "is no Python, or one without symbols" in done.stderr
        os.kill(sleeper.pid, signal.SIGSTOP)
        assert comes(lambda: state(sleeper.pid) == "T")
        done = attached(tachograph, str(sleeper.pid))
        assert f"let it go on with: kill -CONT {sleeper.pid}" in done.stderr
    finally:
        sleeper.kill()
    assert comes(lambda: state(sleeper.pid) == "Z")  # not waited for
    done = attached(tachograph, str(sleeper.pid))
    assert "has ended, and its parent has not asked for its exit status yet" in done.stderr
    sleeper.wait()


NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@as_root
def test_another_user(tmp_path, tachograph_path):
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as name,
        Target(tmp_path / "run", "import pathlib, time\npathlib.Path('runs').touch()\ntime.sleep(600)\n") as target,
    ):
        program = shutil.copy(tachograph_path, name)  # the other user may not be able to enter the build folder
        for path in (name, program):
            os.chmod(path, 0o755)
        done = subprocess.run(
            [program, "attach", target.pid], cwd=name, user=NOBODY, extra_groups=[], capture_output=True, text=True
        )
        assert done.returncode and (
            f"process {target.pid} belongs to user 0, and you are user {NOBODY}: run tachograph as that user, or with sudo"
            in done.stderr
        ), done.stderr


@as_root
def test_a_user_without_privileges(tachograph):
    """The system decides which user may look into a process, and not only root may."""
    try:
        subprocess.run(
            [sys.executable, "-c", "import torch"], user=NOBODY, extra_groups=[], check=True, capture_output=True
        )
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("other users cannot run this Python")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        (folder / "run").mkdir()
        (folder / "run").chmod(0o777)
        with Target(folder / "run", user=NOBODY, extra_groups=[], env={**os.environ, "HOME": name}) as target:
            done = attached(tachograph, target.pid, "--steps", "5", "-o", folder / "a", user=NOBODY, extra_groups=[])
            assert done.returncode == 0 and f"attached   to process {target.pid}" in done.stderr, done.stderr
            assert target.end()["left"]["hooks"] == 0
        with tg.open(folder / "a" / "trace.tacho") as trace:
            assert len(trace.ask("steps")) == 5


OTHER_FILES = """
mount -t tmpfs none "$1" || exit 77
for d in /*; do
    if [ -L "$d" ]; then cp -a "$d" "$1"; elif [ -d "$d" ]; then mkdir -p "$1$d"; mount --rbind "$d" "$1$d" || exit 77; fi
done
exec chroot "$1" "$2" -c 'import os, pathlib, time, torch; os.chdir("'"$3"'"); pathlib.Path("runs").touch(); time.sleep(600)'
"""


@as_root
def test_a_program_that_sees_other_files(tmp_path, tachograph):
    """As in a container: its root is a file system of its own."""
    (tmp_path / "root").mkdir()
    words = ["unshare", "-m", "sh", "-c", OTHER_FILES, "sh", str(tmp_path / "root"), sys.executable, str(tmp_path)]
    target = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "runs").exists():
            if target.poll() is not None:
                pytest.skip("no file system can be mounted here")
            time.sleep(0.01)
        done = attached(tachograph, str(target.pid))
        assert (
            done.returncode
            and "runs in a container and sees other files: run tachograph attach inside of it" in done.stderr
        )
    finally:
        target.kill()
        target.wait()


def test_a_program_that_is_recorded_already(tmp_path, tachograph):
    with Target(tmp_path / "run", "import tachograph as tg\ntg.flight_recorder()\n" + LOOP) as target:
        done = attached(tachograph, target.pid, "-o", tmp_path / "a")
        assert done.returncode and "not recorded:" in done.stderr and "already" in done.stderr, done.stderr
        assert not (tmp_path / "a").exists()
        left = target.end()["left"]
        assert left["hooks"] == 2  # the flight recorder's own


# Its main thread is in one call of the system until its standard input ends.
BLOCKED = "import sys, torch, pathlib\npathlib.Path('runs').touch()\nsys.stdin.read()\n"


def test_a_main_thread_that_does_not_come_back(tmp_path, tachograph):
    """Giving up leaves the program as it was: what was queued does nothing when the interpreter comes to it."""
    with Target(tmp_path / "run", BLOCKED + LOOP, words=("20",), stdin=subprocess.PIPE) as target:
        command, said = begun(target, tmp_path / "a")
        assert said.startswith(f"waiting    for the main thread of process {target.pid}, which is in "), said
        command.send_signal(signal.SIGINT)
        assert (
            command.wait(timeout=600) and f"stopped before process {target.pid} was recorded" in command.stderr.read()
        )
        assert not (tmp_path / "a").exists()
        assert len(target.result()["losses"]) == 20


@pytest.mark.skipif(sys.version_info < (3, 14), reason="asked by sys.remote_exec from Python 3.14 on")
def test_python_says_nothing_of_what_was_given_up(tmp_path, tachograph):
    """Its main thread comes to the file that it was asked to read when the file is gone."""
    text = "print('[', end='')\n" + BLOCKED + "for _ in range(9): print('7')\n"
    with Target(tmp_path / "run", text, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as target:
        command, _ = begun(target, tmp_path / "a")
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=600) and not (tmp_path / "a").exists()
        out, _ = target.process.communicate(timeout=600)
    assert out == "[" + "7\n" * 9


ENDS = """
import atexit, pathlib, time, torch
atexit.register(lambda: (pathlib.Path("ends").touch(), time.sleep(20)))
"""


@pytest.mark.skipif(
    sys.version_info < (3, 14), reason="before 3.14 attach waits for the main thread, which ends first or not"
)
def test_a_program_that_is_ending(tmp_path, tachograph):
    with Target(tmp_path / "run", ENDS, wait="ends") as target:
        done = attached(tachograph, target.pid, "-o", tmp_path / "a")
        said = "is ending" in done.stderr or "ended before anything was recorded" in done.stderr  # it ends meanwhile
        assert done.returncode and said and "install tachograph" not in done.stderr, done.stderr
        assert not (tmp_path / "a").exists()


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 can be told to be attached to by nobody")
def test_a_program_that_nothing_may_attach_to(tmp_path, tachograph):
    with Target(tmp_path / "run", env={**os.environ, "PYTHON_DISABLE_REMOTE_DEBUG": "1"}) as target:
        done = attached(tachograph, target.pid, "-o", tmp_path / "a")
        assert "PYTHON_DISABLE_REMOTE_DEBUG" in done.stderr and "start the program with tachograph run" in done.stderr
        assert not (tmp_path / "a").exists() and len(target.end()["losses"]) > 5


def test_a_program_that_dies_meanwhile(tmp_path, tachograph):
    with Target(tmp_path / "run") as target:
        command, _ = begun(target, tmp_path / "a", "--steps", "100000")
        log = tmp_path / "a" / "raw" / f"log-{target.pid}"
        assert comes(lambda: log.exists() and log.read_text().count("\nstep window ") > 20)
        target.process.kill()
        said = command.stderr.read()
        assert command.wait(timeout=600) == 0 and "was killed, or left without cleaning up" in said, said
    with tg.open(tmp_path / "a" / "trace.tacho") as trace:
        assert len(trace.ask("steps")) > 10
