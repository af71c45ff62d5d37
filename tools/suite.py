#!/usr/bin/env python3
"""The test suite: ctest (unit tests, fuzz corpora), then pytest (Python, command line, golden files), one closing line.

    tools/suite.py --build DIR     DIR holds the C build with tests

Writes build/suite.counts ("passed failed skipped") for .ci/run."""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


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


def run(command, junit, **kwargs):
    junit.unlink(missing_ok=True)
    status = subprocess.run(command, cwd=ROOT, **kwargs).returncode
    passed, failed, skipped = count(junit)
    if status != 0 and failed == 0:
        failed = 1  # it broke outside any test
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("pytest_args", nargs="*", help="passed on to pytest")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    begin = time.monotonic()
    environment = dict(
        os.environ, TACHOGRAPH=str(build / "tachograph"), TACHOGRAPH_LIBRARY=str(build / "libtachograph.so")
    )
    parts = [
        run(
            [
                "ctest",
                "--test-dir",
                str(build),
                "--output-on-failure",
                "--timeout",
                "120",
                "-j2",
                "-Q",
                "--output-log",
                str(build / "ctest.log"),
                "--output-junit",
                str(build / "ctest.xml"),
            ],
            build / "ctest.xml",
        ),
        run(
            [sys.executable, "-m", "pytest", "-q", "--junit-xml", str(build / "pytest.xml"), *options.pytest_args],
            build / "pytest.xml",
            env=environment,
        ),
    ]
    if parts[0][1]:
        print((build / "ctest.log").read_text(errors="replace")[-20000:])
    print(
        f"C: {parts[0][0]} passed, {parts[0][1]} failed · Python: {parts[1][0]} passed, {parts[1][1]} failed · "
        f"{time.monotonic() - begin:.0f} s"
    )
    passed, failed, skipped = (sum(column) for column in zip(*parts))
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "suite.counts").write_text(f"{passed} {failed} {skipped}\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
