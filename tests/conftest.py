"""Shared by every pytest folder: where the command line is, and how to run it."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption("--accept", action="store_true", help="rewrite golden files instead of comparing")


def pytest_runtest_setup(item):
    if item.get_closest_marker("long") and "TG_LONG" not in os.environ:
        pytest.skip("a long test: make check runs it, with TG_LONG=1")


def find_command_line():
    """TACHOGRAPH in the environment, else the build folder's, else the installed one."""
    for candidate in (os.environ.get("TACHOGRAPH"), ROOT / "build" / "tachograph", shutil.which("tachograph")):
        if candidate and pathlib.Path(candidate).exists():
            return str(candidate)
    raise FileNotFoundError("no tachograph binary: run `make all`, or set TACHOGRAPH")


@pytest.fixture(scope="session")
def tachograph_path():
    return find_command_line()


@pytest.fixture
def tachograph(tachograph_path, tmp_path):
    """tachograph("ask", file, "steps") → CompletedProcess with text in stdout and stderr. Runs in an empty folder."""

    def run(*args, **kwargs):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **kwargs.pop("env", {})}
        kwargs.setdefault("cwd", tmp_path)
        kwargs.setdefault("timeout", 600)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [tachograph_path, *map(str, args)],
            capture_output=True,
            text=kwargs.pop("text", True),
            env=environment,
            **kwargs,
        )

    return run


@pytest.fixture
def accept(request):
    return request.config.getoption("--accept")
