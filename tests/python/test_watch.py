"""`tachograph watch`: a program that runs already is shown once a second, computes what it would have computed, and is
afterwards as it was; also where the watcher is killed, comes twice, or the program ends."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest
from own_process import comes, state, tasks
from tachograph import _record
from test_attach import LOOP, Target

LOOKS = _record.frames() is None
PLAIN = """
import os, sys, time
def long():
    end = time.thread_time() + 0.03  # of a core, however busy others keep the machine
    while time.thread_time() < end:
        pass
def short():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
open("runs", "w").close()
while not os.path.exists("end"):
    long()
    short()
print('{"tasks": %d}' % len(os.listdir("/proc/self/task")))
sys.exit(7)
"""


@pytest.fixture
def temporary(tmp_path):
    """The folder of the watch is made in here, and must be gone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def environment(temporary):
    return {**os.environ, "TACHOGRAPH_PYTHON": sys.executable, "TMPDIR": str(temporary)}


def started(tachograph_path, temporary, *words, **options):
    return subprocess.Popen(
        [tachograph_path, "watch", *map(str, words)], text=True, env=environment(temporary), start_new_session=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip


def watched(tachograph_path, temporary, *words):
    """Exit status, output, standard error."""
    command = started(tachograph_path, temporary, *words)
    out, said = command.communicate(timeout=600)
    if "look into" in said:
        pytest.skip(said.strip())
    return command.returncode, out, without_waits(said)


def first_line(command):
    line = command.stdout.readline()
    if not line:
        said = command.stderr.read()
        assert "look into" in said, said
        pytest.skip(said.strip())
    return line


def rows_until(command, is_enough, most=900):
    """Objects until one has enough: a machine that others use takes its time."""
    rows = [json.loads(first_line(command))]
    while not is_enough(rows[-1]):
        assert len(rows) < most, rows[-1]
        rows.append(json.loads(command.stdout.readline()))
    return rows


def ended(command, number=signal.SIGINT):
    """Exit status and standard error after a signal."""
    command.send_signal(number)
    _, said = command.communicate(timeout=600)
    return command.returncode, without_waits(said)


def without_waits(said):
    """A busy machine may stop the program where it cannot be entered."""
    return re.sub(r"^waiting    for .*; Ctrl-C ends the wait\n", "", said, flags=re.M)


def test_a_training_loop_and_nothing_is_left(tmp_path, tachograph_path, temporary):
    pytest.importorskip("torch")
    with Target(tmp_path / "run") as target:
        before = tasks(target.pid)
        for _ in range(2):
            command = started(tachograph_path, temporary, target.pid, "--json")
            rows = rows_until(
                command,
                lambda row: (
                    row["parts"].get("of", 0) > 20
                    and row["steps"]["per_s"] is not None
                    and (row["lines"]["looks"] > 100 or not LOOKS)
                ),
            )
            assert ended(command) == (0, "")
            counts = [row["steps"].get("count", 0) for row in rows]
            assert counts == sorted(counts) and counts[-1] > 20, counts
            last = rows[-1]
            assert last["command"].endswith("loop.py 1000000") and last["torch"]
            assert last["python"].startswith(".".join(map(str, sys.version_info[:3])))
            steps = last["steps"]
            assert steps["source"] == "optimizer steps" and steps["of"] <= steps["count"]
            assert 2 <= steps["median_ms"] <= steps["p99_ms"], steps  # each step sleeps for 2 ms
            assert steps["per_s"] < 500
            parts = {row["part"]: row["share_pct"] for row in last["parts"]["rows"]}
            assert list(parts) == ["data", "forward", "loss", "backward", "optimizer", "other"]
            assert sum(parts.values()) == pytest.approx(100) and parts["data"] == 0
            assert all(parts[part] > 0 for part in ("forward", "loss", "backward", "optimizer", "other")), parts
            assert last["parts"]["device_busy_pct"] is None and last["memory"]["devices"] == []
            assert last["memory"]["VmHWM"] >= last["memory"]["VmRSS"] > 50 << 20
            if LOOKS:
                shares = {row["line"]: row["share_pct"] for row in last["lines"]["rows"] if "loop.py" in row["file"]}
                sleeps = 1 + LOOP.splitlines().index("    time.sleep(0.002)")
                assert shares.get(sleeps, 0) > 5 and last["lines"]["thread"] == "MainThread", last["lines"]
            assert comes(lambda: tasks(target.pid) == before), tasks(target.pid)
        result = target.end()
    left = result["left"]
    assert left["threads"] == ["MainThread"] and left["tasks"] == 0 and left["hooks"] == 0 and left["on"] == []
    assert not [file for file in left["files"] if "tachograph" in file]
    assert not [name for name in left["names"] if name in ("home", "settings", "enter", "tachograph")]
    with Target(tmp_path / "alone", words=(str(len(result["losses"])),), wait="") as alone:
        assert alone.result()["losses"] == result["losses"]


def test_a_program_without_torch_that_ends(tmp_path, tachograph_path, temporary):
    with Target(tmp_path / "run", PLAIN) as target:
        command = started(tachograph_path, temporary, target.pid, "--json")
        rows = rows_until(command, lambda row: row["lines"]["looks"] > 200 or not LOOKS)
        assert target.end()["tasks"] >= 1 and target.process.returncode == 7  # ours among them: it is watched
        _, said = command.communicate(timeout=600)
    assert command.returncode == 0 and said == f"tachograph watch: process {target.pid} has ended\n"
    last = rows[-1]
    assert last["torch"] == "" and last["steps"] == {"why": "the program has not imported torch"}
    assert last["memory"]["VmRSS"] > 1 << 20
    if LOOKS:
        shares = {}
        for row in last["lines"]["rows"]:
            shares[row["function"]] = shares.get(row["function"], 0) + row["share_pct"]
        assert shares["long"] / (shares["long"] + shares["short"]) == pytest.approx(0.75, abs=0.15), shares
    assert last["price"]["threads_pct"] < 30


def test_a_program_that_imports_torch_later(tmp_path, tachograph_path, temporary):
    pytest.importorskip("torch")
    text = "import os, time\nopen('runs', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\n"
    with Target(tmp_path / "run", text + LOOP) as target:
        command = started(tachograph_path, temporary, target.pid, "--json")
        assert json.loads(first_line(command))["torch"] == ""
        (target.folder / "go").touch()
        rows = rows_until(command, lambda row: row["steps"].get("count", 0) > 10)
        assert rows[-1]["torch"] and ended(command) == (0, "")
        assert comes(lambda: tasks(target.pid)[1] == 0)
        left = target.end()["left"]
    assert left["tasks"] <= 0 and left["hooks"] == 0 and left["on"] == []


def test_one_who_watches_already(tmp_path, tachograph, tachograph_path, temporary):
    with Target(tmp_path / "run", PLAIN) as target:
        command = started(tachograph_path, temporary, target.pid)
        assert "the program has not imported torch" in first_line(command)
        status, out, said = watched(tachograph_path, temporary, target.pid, "--once")
        assert status == 4 and out == "" and "tachograph watch watches this process: end that first" in said
        assert ended(command, signal.SIGTERM) == (0, "")
        status, out, said = watched(tachograph_path, temporary, target.pid, "--once", "--for", "2")
        assert status == 0 and said == "" and "plain" not in said
        assert max(map(len, out.splitlines())) <= 80 or str(tmp_path) in out
        assert out.startswith(f"tachograph watch {target.pid}   Python ") and "resident" in out
        assert comes(lambda: tasks(target.pid) == (1, 0))  # the thread has said that it ends
        assert target.end() == {"tasks": 1}


@pytest.mark.parametrize("who", ["command", pytest.param("both", marks=pytest.mark.long)])
def test_a_watcher_that_is_killed(tmp_path, tachograph_path, temporary, who):
    """Only the command: the drawing process sees it. Both: the program sees that looking has ended, after 15 s."""
    with Target(tmp_path / "run", PLAIN) as target:
        command = started(tachograph_path, temporary, target.pid)
        first_line(command)
        assert tasks(target.pid)[1] >= 1 and len(list(temporary.iterdir())) == 1
        if who == "both":
            os.killpg(command.pid, signal.SIGKILL)
        else:
            command.kill()
        command.wait()
        command.stdout.close()
        command.stderr.close()
        assert comes(lambda: tasks(target.pid) == (1, 0) and not list(temporary.iterdir()))
        assert target.end() == {"tasks": 1} and target.process.returncode == 7


FORKS = """
import os, time
def child():
    return {"tasks": len(os.listdir("/proc/self/task")), "files": [
        os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]}
import json
open("runs", "w").close()
found = []
while not os.path.exists("end"):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(child()).encode())
        os._exit(0)
    os.close(writing)
    found.append(json.loads(os.read(reading, 65536)))
    os.close(reading)
    os.wait()
    time.sleep(0.05)
print(json.dumps(found))
"""


# Each file of the watch stays open for so long that the program forks meanwhile, or would.
SLOW_FILES = """
import builtins, os, posix, time
def slowly(function):
    def opened(path, *words, **named):
        file = function(path, *words, **named)
        if "tachograph-watch" in str(path):
            time.sleep(0.2)
        return file
    return opened
builtins.open, os.open, posix.open = slowly(open), slowly(os.open), slowly(posix.open)
"""
WITH_TORCH = "import threading, torch\n"


@pytest.mark.parametrize(
    "head", ["", *(pytest.param(h, marks=pytest.mark.long) for h in (WITH_TORCH, SLOW_FILES)), SLOW_FILES + WITH_TORCH]
)
def test_a_program_that_forks(tmp_path, tachograph_path, temporary, head):
    if WITH_TORCH in head:
        pytest.importorskip("torch")
    with Target(tmp_path / "run", head + FORKS, stderr=subprocess.DEVNULL) as target:
        command = started(tachograph_path, temporary, target.pid, "--json")
        rows_until(command, lambda row: row["lines"]["looks"] > 200 or not LOOKS)
        assert ended(command) == (0, "")
        found = target.end()
    assert found and {child["tasks"] for child in found} == {1}
    assert not [file for child in found for file in child["files"] if "tachograph-watch" in file]


FORKING_THREADS = """
import os, threading, time, torch
def fork():
    while not os.path.exists("end"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(0.001)
threads = [threading.Thread(target=fork) for _ in range(3)]
for thread in threads:
    thread.start()
open("runs", "w").close()
while not os.path.exists("end"):
    time.sleep(0.05)
for thread in threads:
    thread.join()
print("{}")
"""


@pytest.mark.long
def test_a_program_whose_threads_fork_at_once(tmp_path, tachograph_path, temporary):
    pytest.importorskip("torch")
    with Target(tmp_path / "run", FORKING_THREADS, stderr=subprocess.DEVNULL) as target:
        before = tasks(target.pid)
        command = started(tachograph_path, temporary, target.pid, "--json")
        rows_until(command, lambda row: row["torch"] and row["watched_s"] > 3)
        assert ended(command) == (0, "")
        assert comes(lambda: tasks(target.pid) == before), tasks(target.pid)
        assert target.end() == {}


def read_terminal(end, until, seconds=600):
    """What was written to it until a text came."""
    got, last = "", time.monotonic() + seconds
    while until not in got and time.monotonic() < last:
        if select.select([end], [], [], 0.2)[0]:
            try:
                got += os.read(end, 65536).decode(errors="replace")
            except OSError:  # no process has it open any more
                break
    assert until in got, got
    return got


def own_terminal():
    """In the child: its standard input is its terminal, and SIGHUP ends it also where nohup started these tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGHUP", pytest.param("killed", marks=pytest.mark.long)])
def test_a_terminal_is_restored(tmp_path, tachograph_path, temporary, how):
    with Target(tmp_path / "run", PLAIN) as target:
        ours, its = pty.openpty()
        command = subprocess.Popen(
            [tachograph_path, "watch", target.pid], env={**environment(temporary), "COLUMNS": "60", "LINES": "20"},
            stdin=its, stdout=its, stderr=its, start_new_session=True,
            preexec_fn=own_terminal,
        )  # fmt: skip
        os.close(its)
        got = read_terminal(ours, "program goes on")
        begun = got.index("\x1b[?1049h\x1b[?25l")
        page = re.sub(r"\x1b\[[?0-9]*[A-Za-z]", "", got[begun:]).replace("\r", "").split("\n")
        assert page[0].startswith(f"tachograph watch {target.pid}") and max(map(len, page)) <= 60, page
        if how == "Ctrl-C":
            os.write(ours, b"\x03")
        elif how == "killed":  # what draws
            children = subprocess.run(["pgrep", "-P", str(command.pid)], capture_output=True, text=True).stdout.split()
            os.kill(int(children[0]), signal.SIGKILL)
        else:
            command.send_signal(getattr(signal, how))
        read_terminal(ours, "\x1b[?25h\x1b[?1049l")
        command.wait(timeout=600)
        os.close(ours)
        assert command.returncode == (128 + 9 if how == "killed" else 0)
        assert comes(lambda: tasks(target.pid) == (1, 0) and not list(temporary.iterdir()))
        assert target.end() == {"tasks": 1}


@pytest.mark.parametrize(
    "words, said",
    [
        (["4194305"], "there is no process 4194305"),
        (["train.py"], "watch needs the number of a process, not 'train.py'"),
        (["1", "--for", "0"], "--for needs a number of seconds above 0, not '0'"),
        (["1", "--for", "soon"], "--for needs a number of seconds above 0, not 'soon'"),
        ([], "watch"),
    ],
)
def test_words_that_are_wrong(tachograph_path, temporary, words, said):
    command = started(tachograph_path, temporary, *words)
    _, errors = command.communicate(timeout=600)
    assert command.returncode and said in errors, errors


def test_a_program_that_is_no_python(tachograph_path, temporary):
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        assert comes(lambda: state(sleeper.pid) == "S")
        command = started(tachograph_path, temporary, sleeper.pid)
        _, said = command.communicate(timeout=600)
        assert command.returncode and ("is no Python, or one without symbols" in said or "look into" in said), said
    finally:
        sleeper.kill()
        sleeper.wait()
