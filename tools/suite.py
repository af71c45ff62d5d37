#!/usr/bin/env python3
"""The test suite: ctest (unit tests, fuzz corpora), then pytest (Python, command line, golden files), one closing line.

    tools/suite.py --build DIR [--shared DIR] [--jobs N]

--build has the C build with tests. --shared has traces and oracle, their recorded answers: tests/conformance runs with
the others. Tests that are marked `timing` run last, one after the other.

Writes build/suite.counts ("passed failed skipped") for .ci/run."""

import argparse
import os
import pathlib
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOWEST = 10


class Part:
    """A process that writes a JUnit file; one without is a test itself. Its output goes to log, if there is one."""

    def __init__(self, name, command, junit=None, log=None, env=None):
        self.name, self.junit, self.log = name, junit, log
        if junit:
            junit.unlink(missing_ok=True)
        self.begin = time.monotonic()
        with open(log or os.devnull, "wb") as file:
            output = {"stdout": file, "stderr": subprocess.STDOUT} if log else {}
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, **output)
        self.waits = threading.Thread(target=self.reap)
        self.waits.start()

    def reap(self):
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.wall_s, self.cpu_s = time.monotonic() - self.begin, usage.ru_utime + usage.ru_stime

    def wait(self):
        self.waits.join()
        failed = int(self.process.returncode != 0)
        self.passed, self.failed, self.skipped = count(self.junit) if self.junit else (1 - failed, failed, 0)
        self.failed = self.failed or failed  # it broke outside any test
        if self.failed and self.log:
            print(self.log.read_text(errors="replace")[-20000:])
        return self


def count(junit):
    """(passed, failed, skipped) of a JUnit file; a file that was not written is one failure."""
    if not junit.exists():
        return 0, 1, 0
    root = ElementTree.parse(junit).getroot()
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    tests, failed, skipped = 0, 0, 0
    for suite in suites:
        tests += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    return tests - failed - skipped, failed, skipped


def durations(junit):
    """(seconds, name) of every test in a JUnit file."""
    for case in ElementTree.parse(junit).iter("testcase") if junit and junit.exists() else ():
        where = (case.get("classname") or "").replace(".", "/")
        yield (
            float(case.get("time") or 0),
            case.get("name") if where == case.get("name") else f"{where}::{case.get('name')}",
        )


def ctest(build, jobs):
    command = [
        "ctest",
        "--test-dir",
        str(build),
        "--output-on-failure",
        "--timeout",
        "120",
        f"-j{jobs}",
        "--output-junit",
        str(build / "ctest.xml"),
    ]
    return Part("C", command, junit=build / "ctest.xml", log=build / "ctest.log")


def pytest(name, build, *arguments):
    junit = build / f"{name}.xml"
    environment = dict(
        os.environ, TACHOGRAPH=str(build / "tachograph"), TACHOGRAPH_LIBRARY=str(build / "libtachograph.so")
    )
    environment.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would take the processors from the other workers
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # without bytecode each process compiles torch again: 1.3 s or more
    command = [sys.executable, "-m", "pytest", "-q", "--junit-xml", str(junit), *arguments]
    return Part(name, command, junit=junit, env=environment)


def conformance(build, shared):
    command = [
        sys.executable,
        "tests/conformance/run.py",
        "--traces",
        str(shared / "traces"),
        "--oracle",
        str(shared / "oracle"),
    ]
    environment = dict(os.environ, TACHOGRAPH=str(build / "tachograph"))
    return Part("conformance", command, log=build / "conformance.log", env=environment)


def run(build, shared, jobs, more):
    """The finished parts. Parts that need the processors run together; those that compare clocks, one by one."""
    together = [
        ctest(build, jobs),
        # One more than processors: programs that tests start, stop and wait for leave a sixth of the time unused.
        pytest("python", build, "-n", str(jobs + 1), "--dist", "worksteal", "-m", "not timing", *more),
    ]
    if shared and (shared / "traces").is_dir() and (shared / "oracle").is_dir():
        together.append(conformance(build, shared))
    timed = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.timing" in path.read_text()]
    return [*(part.wait() for part in together), pytest("timing", build, "-m", "timing", *timed, *more).wait()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--shared", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("pytest_args", nargs="*", help="passed on to pytest")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    parts = run(build, options.shared, options.jobs, options.pytest_args)
    print("\nslowest tests")
    slowest = sorted((d for part in parts for d in durations(part.junit)), reverse=True)[:SLOWEST]
    for seconds, name in slowest:
        print(f"{seconds:8.1f} s  {name}")
    print(f"\n{'part':<12}{'passed':>8}{'failed':>8}{'skipped':>8}{'wall s':>8}{'CPU s':>8}")
    for part in parts:
        print(f"{part.name:<12}{part.passed:>8}{part.failed:>8}{part.skipped:>8}{part.wall_s:>8.1f}{part.cpu_s:>8.1f}")
    passed, failed, skipped = (sum(getattr(part, name) for part in parts) for name in ("passed", "failed", "skipped"))
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "suite.counts").write_text(f"{passed} {failed} {skipped}\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
