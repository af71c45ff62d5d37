"""Misuse and bad moments: each works, or ends in one clear sentence, and the next recording is as good as the first."""

import contextlib
import os
import textwrap
import threading
import time
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU, loop, names, steps

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def profile(backend):
    return lambda **arguments: tg.profile(backend=backend, activities=[CPU], **arguments)


@pytest.fixture(autouse=True)
def a_recording_works_afterwards(profile):
    yield
    with profile() as prof:
        torch.ones(2).erf()
    assert "aten::erf" in names(prof)


@pytest.fixture
def run_program(forks):
    """run_program(backend, body): a process, `profile` in it is on that backend. → exit status, its two outputs."""

    def run(backend, body):
        done = forks.run(
            "import os, sys, functools, torch, tachograph as tg\n"
            f"profile = functools.partial(tg.profile, backend={backend!r}, activities=[tg.ProfilerActivity.CPU])\n"
            + textwrap.dedent(body)
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_two_at_once(profile):
    with profile() as first:
        torch.ones(2).sin()
        with pytest.raises(
            RuntimeError, match="another tachograph profiler is recording in this process: stop it first"
        ):
            profile().start()
        torch.ones(2).cos()
    assert {"aten::sin", "aten::cos"} <= set(names(first))


def test_two_in_turns(profile):
    plans = [tg.schedule(wait=0, warmup=1, active=1, repeat=1), tg.schedule(wait=2, warmup=1, active=1, repeat=1)]
    with profile(schedule=plans[0]) as first, profile(schedule=plans[1]) as second:
        for _ in range(5):
            torch.ones(2)
            first.step()
            second.step()
    assert steps(first) == [1] and steps(second) == [3]


def test_torch_profiler_at_the_same_time(profile, backend):
    with torch.profiler.profile(activities=[CPU]) as theirs:
        if backend == "kineto":
            with pytest.raises(RuntimeError, match="torch.profiler is recording on this thread"):
                profile().start()
        else:
            with profile() as ours:
                torch.ones(2).sin()
            assert "aten::sin" in names(ours)
        torch.ones(2).cos()
    assert "aten::cos" in {e.name for e in theirs.events()}


@pytest.mark.parametrize("theirs", [torch.profiler.profile, torch.autograd.profiler.profile])
@pytest.mark.parametrize("order", ["nested", "crossed"])
def test_torch_profiler_started_within(profile, backend, theirs, order):
    """torch's collector hands all records to the profiler started last. A window without any crashed torch when it was
    read."""
    ours, other = profile(), theirs()
    ours.start()
    torch.ones(2).sin()
    time.sleep(0.003)
    other.__enter__()
    torch.ones(2).cos()
    ends = [lambda: other.__exit__(None, None, None), ours.stop]
    if backend == "native":
        for end in ends if order == "nested" else ends[::-1]:
            end()
        assert {"aten::sin", "aten::cos"} <= set(names(ours))
        return
    if order == "nested":
        ends[0]()
    with pytest.warns(
        UserWarning,
        match="all of this window is lost" if order == "nested" else "what came before is lost to this window",
    ):
        ends[1]()
    if order == "crossed":
        with contextlib.suppress(RuntimeError):  # torch up to 2.5: it is not running
            ends[0]()
    assert set(names(ours)) & {"aten::sin", "aten::cos"} == ({"aten::cos"} if order == "crossed" else set())


def test_a_signal_handler_that_records_while_another_profiler_starts(run_program, backend):
    """The handler comes in where the package chooses the recorder: it must not wait for the thread that it
    interrupts."""
    status, out, err = run_program(
        backend,
        """
        import signal
        from tachograph._collect import backend as _backend
        def handler(*_):
            with profile() as inner: torch.ones(2).cos()
            print("aten::cos" in {e.name for e in inner.events()})
        signal.signal(signal.SIGUSR1, handler)
        make = _backend.weakref.ref
        def interrupted(thing, *rest):  # claiming a window calls this
            _backend.weakref.ref = make
            signal.raise_signal(signal.SIGUSR1)
            return make(thing, *rest)
        _backend.weakref = type(sys)("weakref")
        _backend.weakref.ref, _backend.weakref.finalize = interrupted, __import__("weakref").finalize
        with profile() as outer: torch.ones(2).sin()
        print("aten::sin" in {e.name for e in outer.events()})
        """,
    )
    assert (status, out) == (0, "True\nTrue\n"), err


def test_refused_by_one_that_has_ended_by_now(monkeypatch):
    """That is no reason to record with torch's own collector."""
    from tachograph._collect import backend as _backend

    def claim(recording):
        monkeypatch.undo()
        raise _backend.Busy("another was recording")

    monkeypatch.setattr(_backend, "_claim", claim)
    with pytest.raises(_backend.Busy):
        tg.profile(activities=[CPU]).start()


def test_unbalanced_calls(profile):
    prof = profile()
    with pytest.warns(UserWarning, match=r"^stop\(\): this profiler was not started") as caught:
        prof.stop()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^step\(\): this profiler was not started"):
        prof.step()
    prof.start()
    with pytest.warns(UserWarning, match=r"^start\(\): this profiler runs already$"):
        prof.start()
    torch.ones(2).sin()
    prof.stop()
    with pytest.warns(UserWarning, match="stopped already"):
        prof.stop()
    assert "aten::sin" in names(prof)


def test_stop_within_the_block(profile):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile() as prof:
            torch.ones(2).sin()
            prof.stop()
    assert "aten::sin" in names(prof)


def test_used_again(profile):
    prof = profile()
    for operator in ("sin", "cos"):
        with prof:
            getattr(torch.ones(2), operator)()
    found = names(prof)
    assert "aten::cos" in found and "aten::sin" not in found


def test_controls_inside_the_handler(profile):
    said = []

    def handler(prof):
        for control in (prof.step, prof.start):
            with pytest.raises(RuntimeError, match="was called from inside on_trace_ready") as caught:
                control()
            said.append(str(caught.value).split("(")[0])

    with profile(schedule=tg.schedule(wait=0, warmup=1, active=1, repeat=1), on_trace_ready=handler) as prof:
        loop(prof, 3)
    assert said == ["step", "start"]


def test_stop_inside_the_handler(profile):
    windows = []

    def handler(prof):
        windows.append(steps(prof))
        prof.stop()

    prof = profile(schedule=tg.schedule(wait=0, warmup=1, active=1), on_trace_ready=handler)
    prof.start()
    loop(prof, 2)
    with pytest.warns(UserWarning, match="stopped already"):
        prof.step()
    assert windows == [[1]]


def test_handler_that_fails(profile):
    def handler(prof):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        with profile(on_trace_ready=handler) as prof:
            torch.ones(2).sin()
    assert "aten::sin" in names(prof)


def test_window_that_cannot_begin(profile, monkeypatch, tmp_path):
    """The reason is what is raised, not what comes of it at the end of the block; a later window begins."""
    import tempfile

    prof = profile(schedule=tg.schedule(wait=1, warmup=1, active=1, repeat=2))
    with pytest.raises(FileNotFoundError):
        with prof:
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
            loop(prof, 2)
    monkeypatch.undo()
    with prof:
        loop(prof, 5)
    assert steps(prof) == [5]


def test_schedule_that_fails(profile):
    def plan(n):
        if n == 2:
            raise LookupError("step 2")
        return tg.ProfilerAction.RECORD

    with pytest.raises(LookupError):
        with profile(schedule=plan) as prof:
            loop(prof, 4)
    assert prof.step_num == 1


def test_other_threads(profile, backend):
    """Started here, stepped and stopped there: our recorder does that, torch's says that it cannot."""
    prof = profile(schedule=tg.schedule(wait=0, warmup=1, active=2, repeat=1))
    prof.start()
    loop(prof, 1)
    failures = []

    def elsewhere():
        try:
            loop(prof, 2)
        except RuntimeError as e:
            failures.append(str(e))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    if backend == "kineto":
        assert failures == [
            "torch's own collector must be stopped by the thread that started it; with backend='native' any thread may"
        ]
    else:
        assert failures == []
    prof.stop()
    assert steps(prof) == (
        [1] if failures else [1, 2]
    )  # torch's collector sees the thread it was started on, and autograd's


def test_forked_child(run_program, backend):
    status, out, err = run_program(
        backend,
        """
        prof = profile(schedule=tg.schedule(wait=0, warmup=1, active=2, repeat=1))
        prof.start(); torch.ones(2).sin(); prof.step(); torch.ones(2).cos()
        child = os.fork()
        if child == 0:
            prof.step(); prof.stop()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        prof.step(); torch.ones(2).tan(); prof.step(); prof.stop()
        found = {row["name"] for row in prof.trace.ask("events")}
        assert {"aten::cos", "aten::tan"} <= found and os.path.isdir(prof._windows[0].directory)
        print("whole")
        """,
    )
    assert (status, out) == (0, "whole\n"), err
    assert err.count("this profiler belongs to the process that started it") == 2  # from step() and from stop()


def test_children_are_in_the_trace_and_not_in_the_table(run_program, backend):
    if backend != "native":
        pytest.skip("torch's collector does not follow children")
    status, out, err = run_program(
        backend,
        """
        with profile() as prof:
            torch.ones(2).sin()
            child = os.fork()
            if child == 0:
                torch.ones(2).erf()
                os._exit(0)
            os.waitpid(child, 0)
        print("aten::erf" in {row["name"] for row in prof.trace.ask("events")}, {"aten::sin", "aten::erf"} & {e.name for e in prof.events()},
              {"aten::sin", "aten::erf"} & {row.key for row in prof.key_averages()})
        """,
    )
    assert (status, out) == (0, "True {'aten::sin'} {'aten::sin'}\n"), err


def test_interpreter_exit(run_program, backend, tmp_path):
    status, _, err = run_program(
        backend,
        f"""
        prof = profile(on_trace_ready=tg.tensorboard_trace_handler({str(tmp_path)!r}))
        prof.start()
        torch.ones(2).sin()
        """,
    )
    assert status == 0
    assert "the program ends while a profiler is running: it is stopped now" in err
    (name,) = os.listdir(tmp_path)
    assert "aten::sin" in names(tmp_path / name)


def test_sys_exit_within_the_block(run_program, backend, tmp_path):
    status, _, _ = run_program(
        backend,
        f"""
        with profile(on_trace_ready=tg.tensorboard_trace_handler({str(tmp_path)!r})):
            torch.ones(2).sin()
            sys.exit(3)
        """,
    )
    assert status == 3
    (name,) = os.listdir(tmp_path)
    assert "aten::sin" in names(tmp_path / name)


def test_target_that_cannot_be_written(profile, tmp_path):
    with profile() as prof:
        torch.ones(2)
    with pytest.raises(OSError):
        prof.export_chrome_trace(str(tmp_path / "none" / "a.json"))
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        prof.export_chrome_trace(str(tmp_path / "taken"))
    assert os.listdir(tmp_path) == ["taken"]  # no draft is left behind


def test_temporary_folder_that_cannot_be_written(profile, monkeypatch, tmp_path):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError):
        profile().start()
    monkeypatch.undo()


def test_folder_that_is_removed_while_it_records(profile):
    import shutil

    prof = profile()
    prof.start()
    torch.ones(2).sin()
    shutil.rmtree(prof._recording.directory)
    prof.stop()
    with pytest.raises(FileNotFoundError, match="was removed before it was read, and the records with it; set TMPDIR"):
        prof.events()


def test_no_file_may_be_opened_any_more(run_program):
    status, out, err = run_program(
        "native",
        """
        import torch._dynamo
        with profile(): torch.ones(2)
        files = []
        try:
            while True: files.append(os.open("/dev/null", os.O_RDONLY))
        except OSError: pass
        try: profile().start()
        except Exception as e: said = str(e)
        for file in files: os.close(file)
        print(said)
        with profile() as prof: torch.ones(2).sin()
        print("aten::sin" in {e.name for e in prof.events()})
        """,
    )
    assert status == 0 and out.endswith("True\n"), err
    assert "Too many open files; close some files or allow this process more of them (ulimit -n)" in out


def test_disk_that_takes_no_more(run_program):
    status, out, err = run_program(
        "native",
        """
        import logging, resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        a = torch.ones(3)
        with profile() as prof:
            for _ in range(50000): torch.add(a, a)
        print(len(prof.events()))
    """,
    )
    assert status == 0, err
    kept = int(out)
    assert 1000 < kept < (1 << 20) // 32
    assert (
        f"{50000 - kept:,} records were lost: the file could not grow any more (File too large)" in err
        and "budget" not in err
    )


def test_many_windows(profile):
    """Folders do not pile up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = tg.schedule(wait=0, warmup=0, active=1)
    prof = profile(schedule=plan)
    prof.start()
    folders = set()
    for _ in range(20):
        folders.add(prof._recording.directory)
        prof.step()
    assert sum(os.path.exists(folder) for folder in folders) == 1
    prof.stop()
