"""The line `measured` and the findings of one report never give two shares of the same time: on the planted programs,
and on the public traces where they are."""

import json
import os
import pathlib
import re
import subprocess

import pytest
import synthetic_classes
import test_synthetic as planted
from test_synthetic_devices import Ranks

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("SHARED") or ROOT.parent / "shared") / "traces"
NO_TRACES = ("memory_timeline", "memtimeline", "expected", "et.json", "README", "INDEX", "malformed")
PUBLIC = sorted(str(f.relative_to(SHARED)) for f in SHARED.glob("*/*") if not any(word in str(f) for word in NO_TRACES))
PROGRAMS = {name: make for name, make, _ in planted.FIRST_HALF + planted.SECOND_HALF}
PROGRAMS |= {c.name: c.make for c in synthetic_classes.CASES}
SAME = {
    "communication-not-overlapped": "exposed communication",
    "loader-in-main-process": "data loader",
    "loader-too-slow": "data loader",
    "idle-device": "without a kernel",
}


def check(path):
    done = subprocess.run([planted.TACHOGRAPH, "report", path, "--json"], capture_output=True, text=True)
    if done.returncode:
        return 0
    table = json.loads(done.stdout)["report"]["findings"]
    names, compared = [c["name"] for c in table["columns"]], set()
    lines = [n for n in table["notes"] if re.match(r"(rank \d+: )?measured: ", n)]
    for row in (dict(zip(names, r, strict=True)) for r in table["rows"]):
        if row["cause"] not in SAME or row["cause"] in compared:
            continue
        said = [n for n in lines if len(lines) == 1 or n.startswith(f"rank {row['rank']}: ")]
        assert len(said) == 1, (lines, row)
        assert f"{SAME[row['cause']]} {row['share_pct']:.1f} %" in said[0], (row, said)
        compared.add(row["cause"])
    return len(compared)


@pytest.mark.parametrize("name", PROGRAMS)
def test_planted(tmp_path, name):
    made = PROGRAMS[name]()
    check((Ranks(made) if isinstance(made, list) else made).write(tmp_path / "trace.json"))


@pytest.mark.parametrize("name", PUBLIC)
def test_public(name):
    check(SHARED / name)


def test_something_is_compared(tmp_path):
    """Communication that is exposed, a loader in the process, and a device that waits for Python."""
    for name in ("exposed all-reduce", "loader in the process", "Python between launches"):
        assert check(PROGRAMS[name]().write(tmp_path / "trace.json")) == 1, name
