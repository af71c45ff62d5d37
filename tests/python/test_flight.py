"""The flight recorder: what triggers it, what its copies hold and say, and what it leaves behind."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from forks import Forks
from tachograph import _record
from tachograph._flight import ring_recorder, triggers


@pytest.fixture(scope="module")
def forks():
    with Forks("torch", "tachograph.profiler", "tachograph._flight.ring_recorder") as forks:
        yield forks


class Program:
    """Steps of an optimizer."""

    def __init__(self):
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, count=1):
        for _ in range(count):
            self.optimizer.zero_grad()
            self.model(torch.ones(2, 4)).sum().backward()
            self.optimizer.step()


def wait_for(condition):
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def why(path):
    return next(r["json"] for r in tg.open(path).ask("document") if r["member"] == "flight_trigger").strip('"')


# ---- triggers ------------------------------------------------------------------------------------------------


def test_a_time_is_held_against_the_median_of_those_before():
    _, watched = triggers.parse(["step > 3x", "request > 2s"])
    times = watched["step"]
    assert [times.observe(ms * 1_000_000) for ms in range(1, 17)] == [""] * 16  # 1 to 16 ms: the median is 9
    assert times.observe(27_000_000) == ""
    assert times.observe(27_000_001) == "a step took 27 ms, 3.0 x the median of 9 ms (limit 3 x)"
    assert watched["request"].observe(2_000_000_000) == ""
    assert watched["request"].observe(2_000_000_001) == "a request took 2 s, the limit is 2 s"


def test_a_median_forgets():
    times = triggers.parse(["step > 2x"])[1]["step"]
    for _ in range(triggers.KEPT):
        times.observe(1000)
    assert times.observe(5000)
    for _ in range(triggers.KEPT):
        times.observe(4000)
    assert times.observe(5000) == ""


@pytest.mark.parametrize("word", ["step", "step > x", "requests > 3x", "Nan", "step > 3 %"])
def test_what_is_no_trigger_is_refused(word):
    with pytest.raises(ValueError, match="is no trigger: there are 'step > 5x'"):
        triggers.parse([word])


def test_times_are_read():
    assert [triggers.seconds("last", t) for t in ("30s", 5, "2min", "500ms", "1.5")] == [30, 5, 120, 0.5, 1.5]
    for wrong in ("soon", "0s", 0, -1):
        with pytest.raises(ValueError, match="last="):
            triggers.seconds("last", wrong)


def test_a_slow_step_nan_file_and_signal_make_copies_that_say_why(tmp_path, tachograph):
    before = signal.getsignal(signal.SIGUSR2), sys.excepthook, threading.excepthook
    program = Program()
    on = ["step > 300ms", "nan", "file", "signal", "exception"]
    with tg.flight_recorder(on=on, folder=tmp_path, rest="1ms", dumps=2, budget="1M") as recorder:
        program.step(5)
        time.sleep(0.4)
        program.step(2)
        wait_for(lambda: len(recorder.dumps) == 1)
        recorder.loss(1.0)
        recorder.loss(torch.tensor(float("nan")))
        wait_for(lambda: len(recorder.dumps) == 2)
        time.sleep(0.01)
        recorder.loss(float("inf"))
        wait_for(lambda: len(recorder.dumps) == 3)
        time.sleep(0.01)
        recorder.loss(float("inf"))  # there are two: there will be no more of this kind
        os.kill(os.getpid(), signal.SIGUSR2)
        wait_for(lambda: len(recorder.dumps) == 4)
        (tmp_path / "dump").write_text('look at "this"\n')
        wait_for(lambda: len(recorder.dumps) == 5)
        assert recorder.suppressed == 1 and not (tmp_path / "dump").exists()
    kinds = [os.path.basename(path).split("-")[0] for path in recorder.dumps]
    assert kinds == ["step", "nan", "nan", "signal", "file"]
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, recorder.dumps))  # and no ring
    reasons = list(map(why, recorder.dumps))
    assert "the limit is 300 ms, step " in reasons[0] and reasons[1].startswith("the loss is nan in step ")
    assert reasons[4].endswith("dump was written: look at 'this'")
    steps = tg.open(recorder.dumps[0]).ask("steps").to_dicts()
    assert max(row["total_ns"] for row in steps) > 300e6 and tg.open(recorder.dumps[0]).ask("ops")
    for words in ([], ["--format", "md"]):
        assert f"{reasons[0][:40]}" in " ".join(tachograph("report", recorder.dumps[0], *words).stdout.split())
    assert json.loads(tachograph("report", recorder.dumps[4], "--json").stdout)["why"] == reasons[4]
    assert (signal.getsignal(signal.SIGUSR2), sys.excepthook, threading.excepthook) == before
    assert all(_record.self_check().values())
    assert not [t for t in threading.enumerate() if t.name.startswith("tachograph")]


def test_kinds_rest_by_themselves_and_a_longer_step_takes_the_place_of_a_shorter_one(tmp_path, caplog):
    """With the rest of 10 s that is the default: a small step, NaN and a long step within one second."""
    caplog.set_level("INFO", "tachograph")
    program = Program()
    with tg.flight_recorder(on=["step > 100ms", "nan"], folder=tmp_path, budget="1M") as recorder:
        program.step(5)
        time.sleep(0.12)
        program.step(2)
        recorder.loss(torch.tensor(float("nan"), requires_grad=True))
        time.sleep(0.6)
        program.step(2)
        time.sleep(0.3)
        program.step(2)
        recorder.loss(float("nan"))
    kinds = sorted(os.path.basename(path).split("-")[0] for path in recorder.dumps)
    assert kinds == ["nan", "step"] and sorted(map(str, tmp_path.iterdir())) == sorted(recorder.dumps)
    (step,) = (path for path in recorder.dumps if "step-" in os.path.basename(path))
    assert why(step).startswith("a step took ") and max(r["total_ns"] for r in tg.open(step).ask("steps")) > 600e6
    assert recorder.suppressed >= 2  # a busy machine makes other steps long, too
    assert f"{recorder.suppressed} triggers made no copy: step {recorder.suppressed - 1}, nan 1" in caplog.text


def test_a_quota_of_copies():
    quota = triggers.Quota(most=2, rest_s=10)
    assert quota.take(1, now_s=0, dur_ns=52) == ("", 0)
    assert quota.take(2, now_s=1, dur_ns=77) == ("the last copy of this kind is less than 10 s old", 0)
    assert quota.take(2, now_s=2, dur_ns=78) == ("", 1)  # half as long again takes the place of copy 1
    assert quota.take(3, now_s=11, dur_ns=100)[0]
    assert quota.take(3, now_s=12, dur_ns=60) == ("", 0)
    assert quota.take(4, now_s=30, dur_ns=60) == ("this process has made its 2 copies of this kind", 0)
    assert quota.take(4, now_s=30, dur_ns=61) == ("", 3)  # the shortest of those that are kept
    assert quota.take(5, now_s=50, dur_ns=70) == ("", 4)
    assert quota.take(6, now_s=51, dur_ns=200) == ("", 5)  # the last one, not the shortest
    assert quota.refused == 3
    plain = triggers.Quota(most=2, rest_s=1)
    made = [plain.take(i, now_s=now_s)[0] == "" for i, now_s in enumerate((0, 0.5, 1, 9), 1)]
    assert made == [True, False, True, False]


def test_a_loss_with_a_gradient_is_looked_at_without_a_warning(tmp_path, recwarn):
    torch.set_warn_always(True)
    with tg.flight_recorder(on=["nan"], folder=tmp_path, budget="1M") as recorder:
        for value in (torch.ones(1, requires_grad=True).sum(), torch.nn.Parameter(torch.tensor(2.0)), 1.5):
            recorder.loss(value)
    torch.set_warn_always(False)
    assert not recwarn.list and recorder.dumps == []


def test_http_takes_requests_with_the_token_from_this_machine(tmp_path):
    def post(headers=None, body=b"", path="/dump"):
        request = urllib.request.Request(address["url"].replace("/dump", path), data=body, headers=headers or {})
        try:
            return urllib.request.urlopen(request, timeout=600).status
        except urllib.error.HTTPError as error:
            return error.code

    with tg.flight_recorder(on=["http"], folder=tmp_path, rest="1ms", dumps=1, budget="1M") as recorder:
        (path,) = glob.glob(str(tmp_path / "http-*.json"))
        assert os.stat(path).st_mode & 0o777 == 0o600
        with open(path) as file:
            address = json.load(file)
        token = {"Authorization": f"Bearer {address['token']}"}
        assert address["url"].startswith("http://127.0.0.1:")
        assert post() == 401 and post({"Authorization": "Bearer x"}) == 401
        assert post({**token, "Host": "evil.example"}) == 403
        assert post(token, b"x" * 1001) == 413 and post(token, path="/other") == 404
        assert recorder.dumps == []
        torch.ones(1).add(1)
        assert post(token, b"p99 \x1b[2J jumped") == 202
        wait_for(lambda: recorder.dumps)
        assert why(recorder.dumps[0]) == "asked for over HTTP: p99 ?[2J jumped"
        assert post(token) == 429
    assert not glob.glob(str(tmp_path / "http-*.json"))


@pytest.mark.parametrize("kind", ["file", "link"])
def test_the_file_of_the_token_is_a_new_one(tmp_path, kind):
    """Others can know its name before: a file of theirs, or a link to one, would get the token."""
    with tg.flight_recorder(on=["http"], folder=tmp_path, budget="1M"):
        (path,) = tmp_path.glob("http-*.json")
    theirs = path if kind == "file" else tmp_path / "theirs"
    theirs.write_text("")
    theirs.chmod(0o666)
    if kind == "link":
        path.symlink_to(theirs)
    with open(theirs) as reader, tg.flight_recorder(on=["http"], folder=tmp_path, budget="1M"):
        assert reader.read() == "" and path.stat().st_mode & 0o777 == 0o600 and not path.is_symlink()
        assert "token" in path.read_text()


def test_only_one_recorder_at_a_time(tmp_path):
    with tg.flight_recorder(on=[], folder=tmp_path, budget="1M") as recorder:
        with pytest.raises(RuntimeError, match="this process is being recorded already"):
            tg.flight_recorder(on=[], folder=tmp_path)
        with pytest.raises(RuntimeError, match="this process is being recorded already"):
            tg.profile(backend="native").start()
        assert recorder.dump("still there")
    assert recorder.dump() is None


def test_a_full_disk_costs_the_copy_and_nothing_else(tmp_path, monkeypatch):
    def full(source, target):
        open(target, "wb").write(b"half")
        raise OSError(28, "No space left on device")

    with tg.flight_recorder(on=[], folder=tmp_path, rest="1ms", budget="1M") as recorder:
        monkeypatch.setattr(shutil, "copyfile", full)
        with pytest.warns(UserWarning, match="no copy of the ring was made for this reason: first: .*No space left"):
            assert recorder.dump("first") is None
            time.sleep(0.01)
        monkeypatch.undo()
        assert recorder.dump("second") and not glob.glob(str(tmp_path / "*.part"))


def test_a_copy_says_how_little_the_ring_holds(tmp_path):
    with tg.flight_recorder(last="1h", on=[], folder=tmp_path, budget="256K") as recorder:
        tensor = torch.ones(4)
        for _ in range(4):
            time.sleep(triggers.seconds("", "0.6"))
            for _ in range(3000):
                tensor.add(tensor)
        assert "of 3600: a budget of " in why(recorder.dump("now"))


def test_folders_keep_the_newest(tmp_path):
    for i in range(6):
        for name in (f"step-{i}-host-1.tacho", f"ring-{ring_recorder._who().rsplit('-', 1)[0]}-{10**9 + i}.tacho"):
            (tmp_path / name).write_text("")
            os.utime(tmp_path / name, (i, i))
    (tmp_path / "mine.tacho").write_text("")
    with tg.flight_recorder(on=[], folder=tmp_path, dumps=1, budget="1M") as recorder:
        recorder.dump()
    left = sorted(os.path.basename(p) for p in glob.glob(str(tmp_path / "*.tacho")))
    assert left == sorted(
        ["mine.tacho", "step-3-host-1.tacho", "step-4-host-1.tacho", "step-5-host-1.tacho", os.path.basename(recorder.dumps[0])]
        + [f"ring-{ring_recorder._who().rsplit('-', 1)[0]}-{10**9 + 5}.tacho"]
    )  # fmt: skip


def test_calls_of_modules_are_left_alone_once_an_optimizer_steps(tmp_path):
    from torch.nn.modules import module

    program = Program()  # before the recorder, which therefore begins with calls of modules
    before = dict(module._global_forward_pre_hooks)
    with tg.flight_recorder(on=[], folder=tmp_path, budget="1M"):
        program.step(3)
        assert dict(module._global_forward_pre_hooks) == before
    assert not program.model._forward_pre_hooks


# ---- the end of a program ------------------------------------------------------------------------------------

BEGIN = """
import os, torch, tachograph as tg
recorder = tg.flight_recorder(folder="flight", budget="1M", rest="1ms")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()
"""


def test_a_killed_program_leaves_its_ring(forks, tmp_path, tachograph):
    done = forks.run(BEGIN + "os.kill(os.getpid(), 9)", cwd=tmp_path)
    assert done.returncode != 0
    (ring,) = (tmp_path / "flight").iterdir()
    assert ring.name.startswith("ring-")
    assert len(tg.open(ring).ask("steps")) >= 6
    assert "no trigger: the process was killed, or still runs" in tachograph("report", ring).stdout


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        ("raise ValueError('it\\nbroke')", "exception", "ValueError: it broke"),
        ("raise MemoryError('no room')", "oom", "MemoryError: no room"),
        ("import threading; t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", "exception", "ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_an_exception_that_nobody_caught(forks, tmp_path, end, kind, said):
    done = forks.run(BEGIN + end, cwd=tmp_path)
    assert said.split(":")[0] in done.stderr and "Traceback" in done.stderr
    (path,) = (tmp_path / "flight").iterdir()
    assert path.name.startswith(f"{kind}-1-") and why(path) == said


def test_a_child_has_no_triggers_and_leaves_nothing(forks, tmp_path):
    child = """
pid = os.fork()
if not pid:
    assert tg.flight_recorder and recorder.dump() is None and recorder.request("signal", "x")
    torch.ones(4).add_(1)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
recorder.close()
print(os.listdir("flight"))
"""
    done = forks.run(BEGIN + child, cwd=tmp_path)
    assert done.stdout == "[]\n", done


def test_the_variable_starts_one_and_never_ends_a_program(tmp_path):
    code = "import tachograph, os; print(sorted(n.split('-')[0] for n in os.listdir('.')))"

    def run(text):
        environment = {**os.environ, "TACHOGRAPH_FLIGHT": text}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    done = run("last=5s,budget=1M,on=step > 3x|oom,folder=.")
    assert (done.returncode, done.stdout) == (0, "['ring']\n"), done.stderr
    done = run("budget=64Q")
    assert (
        done.returncode == 0 and "TACHOGRAPH_FLIGHT='budget=64Q': not recorded: budget='64Q' is no size" in done.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_a_device_without_memory_that_the_program_catches(monkeypatch):
    """Torch calls observers at each allocation that has no room: the recorder that runs is asked for a copy."""
    observers, asked = [], []
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_initialized=lambda: True),
        _C=types.SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(ring_recorder, "_device_memory_watched", False)
    monkeypatch.setattr(ring_recorder, "current", lambda: types.SimpleNamespace(request=lambda *w: asked.append(w)))
    ring_recorder._watch_device_memory()
    ring_recorder._watch_device_memory()
    assert len(observers) == 1  # there is no way to take one off again
    observers[0](0, 1 << 20, 512, 4096)
    assert asked == [("oom", "device 0 has no memory: 1,048,576 bytes were asked for, 4,096 are free")]
