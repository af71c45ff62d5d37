"""The demo's program under `tachograph run`: the report must name what was planted, and with the cure it must
shrink."""

import json
import pathlib
import re
import statistics
import subprocess
import sys

import pytest
import tachograph as tg
from report_figures import usual

pytest.importorskip("torch")
pytestmark = pytest.mark.timing  # shares of a step and what a cure saves, by the clock
PROGRAM = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "train_cnn.py"


def record(folder, *options):
    """The answer of `tachograph run`, and its words for people. Five steps are recorded, with every call of a Python
    function."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tachograph",
            "run",
            "--json",
            "-o",
            folder,
            "--preset",
            "deep",
            "--steps",
            "5",
            PROGRAM,
            "--steps",
            "34",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "slow"
    answer, said = record(folder)
    assert answer["recorded_steps"] == 5 and "34 steps" in said
    with tg.open(folder / "trace.tacho") as trace:
        yield trace


def loader_ns(trace):
    mean = next(row for row in trace.ask("steps", by="summary") if row["step"] == "mean")
    return mean["dataloader_ns"], mean["total_ns"]


def usual_loader_pct(trace):
    """The loader's share of usual steps: of five or more the largest counts as the next one, of waits the median counts
    where it is less."""
    steps = list(trace.ask("steps"))
    part = min(usual([row["dataloader_ns"] for row in steps]), statistics.median(row["dataloader_ns"] for row in steps))
    return 100 * part / usual([row["total_ns"] for row in steps])


def test_first_finding_is_the_planted_one(slow):
    first = slow.ask("findings").to_dicts()[0]
    assert first["cause"] == "loader-in-main-process"
    assert first["share_pct"] == pytest.approx(usual_loader_pct(slow), abs=0.01)
    assert first["share_pct"] > 30
    assert "train_cnn.py" in first["where"]


def test_report_says_so(slow):
    report = slow.report()
    assert "loader-in-main-process" in report
    share = slow.ask("findings").to_dicts()[0]["share_pct"]
    assert f"{share:.1f}" in re.sub(r"\s+", " ", report)


def test_stacks_name_the_function(slow):
    frames = slow.ask("stacks", sort="cpu_ns").to_dicts()
    planted = next(row for row in frames if "normalise_by_row" in row["name"])
    loader, _ = loader_ns(slow)
    assert planted["calls"] == 5 * 32  # five recorded steps of 32 samples
    assert planted["cpu_ns"] > loader * 5 / 2  # most of the loader's time


def test_every_event_is_kept(slow):
    counts = {row["quantity"]: row["value"] for row in slow.ask("overview") if row["group"] == "summary"}
    assert counts["events"] == counts["events_kept"] > 10000
    assert len(slow.losses) == 0


@pytest.mark.long
def test_cure_shrinks_the_loader(slow, tmp_path):
    record(tmp_path / "fixed", "--fixed")
    with tg.open(tmp_path / "fixed" / "trace.tacho") as trace:
        assert loader_ns(trace)[0] < loader_ns(slow)[0] / 3
