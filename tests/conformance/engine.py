"""The engine under test, as the conformance run sees it: answers to questions as lists of dicts."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]


class Refused(Exception):
    """The engine gave no answer. status is the exit status of the command line."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


def find_binary():
    """The command line: $TACHOGRAPH, the newest build of this tree, beside this Python, on the path; None when
    nowhere."""
    if os.environ.get("TACHOGRAPH"):
        return os.environ["TACHOGRAPH"]
    built = [p for p in REPO.glob("build*/tachograph") if os.access(p, os.X_OK)]
    if built:
        return str(max(built, key=lambda p: p.stat().st_mtime))
    beside = pathlib.Path(sys.executable).parent / "tachograph"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("tachograph")


class CommandLine:
    """Asks through `tachograph ask FILE QUESTION --json`."""

    def __init__(self, binary, timeout=600):
        self.binary, self.timeout = binary, timeout

    def ask(self, path, question, **args):
        return self.rows(["ask", str(path), question], args)

    def diff(self, a, b, **args):
        return self.rows(["diff", str(a), str(b)], args)

    def rows(self, words, args):
        command = [self.binary, *words, "--json"]
        for key, value in args.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        run = subprocess.run(command, capture_output=True, timeout=self.timeout)
        if run.returncode != 0:
            raise Refused(run.returncode, run.stderr.decode("utf-8", "replace").strip())
        answer = json.loads(run.stdout)
        names = [c["name"] for c in answer["columns"]]
        return [dict(zip(names, row)) for row in answer["rows"]]


class Package:
    """Asks through the Python package."""

    def __init__(self):
        import tachograph

        self.package = tachograph
        self.path, self.trace = None, None

    def ask(self, path, question, **args):
        try:
            seen = (str(path), os.stat(path).st_mtime_ns)
            if self.path != seen:
                self.path, self.trace = None, None
                self.trace = self.package.open(str(path))
                self.path = seen
            return self.trace.ask(question, **args).to_dicts()
        except self.package.TachographError as error:
            raise Refused(getattr(error, "status", 5), str(error)) from error

    def diff(self, a, b, **args):
        try:
            return self.package.diff(a, b, **args).to_dicts()
        except self.package.TachographError as error:
            raise Refused(getattr(error, "status", 5), str(error)) from error


def open_engine(binary):
    binary = binary or find_binary()
    return CommandLine(binary) if binary else Package()
