"""Shared by every pytest folder: where the command line is, and how to run it."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["TACHOGRAPH_LEDGER"] = "0"  # what tests compare says nothing of predictions on this machine


def pytest_addoption(parser):
    parser.addoption("--accept", action="store_true", help="rewrite golden files instead of comparing")


def pytest_runtest_setup(item):
    if item.get_closest_marker("long") and "TG_LONG" not in os.environ:
        pytest.skip("a long test: make check runs it, with TG_LONG=1")
    if item.get_closest_marker("frames"):
        refused = pytest.importorskip("tachograph._record").frames()
        if refused:
            pytest.skip(refused)


BUSY_CORES = 0.3  # of other programs, on average: more shifts clocks and shares of time


def busy_seconds():
    """CPU seconds of all programs of this machine, and those of this process and of its children that have ended."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    ticks = sum(int(words[i]) for i in (1, 2, 3, 6, 7, 8))  # user, nice, system, irq, softirq, steal
    return ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    item.busy_at_start = (time.monotonic(), *busy_seconds())
    return (yield)


def stop_recordings():
    """Of this process, whatever opened them."""
    backend, native, record = (
        sys.modules.get(f"tachograph.{name}") for name in ("_collect.backend", "_collect.native", "_record")
    )
    window = backend.current() if backend else None
    if window:
        (window.stop if window.running else window.drop)()
    for recording in list(native._open_ones) if native else []:
        recording.stop()
    if record and record.state()["open"]:
        record.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A timed test that fails beside busy programs of others has no verdict: it is skipped with the figure. A
    recording that a failing test leaves open ends: while it is open, the next tests can open none."""
    report = yield
    if report.failed:
        item.has_failed = True
    if call.when == "teardown" and getattr(item, "has_failed", False):
        stop_recordings()
    if call.when == "call" and report.failed and item.get_closest_marker("timing"):
        began, all_before, own_before = item.busy_at_start
        everything, own = busy_seconds()
        others = (everything - all_before - (own - own_before)) / max(time.monotonic() - began, 1e-9)
        if others > BUSY_CORES:
            report.outcome = "skipped"
            why = f"failed while other programs used {others:.1f} cores: clocks are not judged on a busy machine"
            report.longrepr = (str(item.path), item.reportinfo()[1] or 0, why)
    return report


def find_command_line():
    """TACHOGRAPH in the environment, else the build folder's, else the installed one."""
    for candidate in (os.environ.get("TACHOGRAPH"), ROOT / "build" / "tachograph", shutil.which("tachograph")):
        if candidate and pathlib.Path(candidate).exists():
            return str(candidate)
    raise FileNotFoundError("no tachograph binary: run `make all`, or set TACHOGRAPH")


@pytest.fixture(scope="session")
def tachograph_path():
    return find_command_line()


@pytest.fixture(scope="session")
def by_rank_path(tachograph_path):
    """The same command line, which reads every folder of ranks as it reads those of more than 16 MB: rank by rank."""
    found = pathlib.Path(tachograph_path).with_name("tachograph-by-rank")
    if not found.exists():
        raise FileNotFoundError(f"no {found}: run `make build-tests`")
    return str(found)


def command_line(program, tmp_path):
    """command_line(…)("ask", file, "steps") → CompletedProcess with text in stdout and stderr. Runs in an empty
    folder."""

    def run(*args, **kwargs):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **kwargs.pop("env", {})}
        kwargs.setdefault("cwd", tmp_path)
        kwargs.setdefault("timeout", 600)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [program, *map(str, args)],
            capture_output=True,
            text=kwargs.pop("text", True),
            env=environment,
            **kwargs,
        )

    return run


@pytest.fixture
def tachograph(tachograph_path, tmp_path):
    return command_line(tachograph_path, tmp_path)


@pytest.fixture
def tachograph_by_rank(by_rank_path, tmp_path):
    return command_line(by_rank_path, tmp_path)


@pytest.fixture
def accept(request):
    return request.config.getoption("--accept")
