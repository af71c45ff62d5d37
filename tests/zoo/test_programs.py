"""Programs with a known answer, recorded by the command: a few of them, and with TG_LONG=1 all."""

import os
import pathlib
import shutil
import sys

import bars
import neighbour
import pytest

pytest.importorskip("torch")
TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
PROGRAMS = [bars.of_zoo(path) for path in sorted((bars.HERE / "programs").glob("*.py"))]
# What it gives does not depend on how busy the machine is: it is told by what is called how often.
SHORT = {"optimizer_one_by_one"}
CHOSEN = [p for p in PROGRAMS if p.name in SHORT or os.environ.get("TG_LONG")]


@pytest.mark.timing
@pytest.mark.parametrize("program", CHOSEN, ids=lambda p: p.name)
def test_first_finding(tmp_path, program, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    row = bars.record(shutil.which(TACHOGRAPH) or TACHOGRAPH, program, tmp_path / "out", steps=8)
    row.update(program=program.name, bed="quiet", number=0, seconds=0)
    if row.get("reasons") and not row["findings"] and not program.is_healthy:
        pytest.skip("other programs keep the machine busy, and findings say so")
    assert bars.is_right(program, row) and bars.is_at_place(program, row), bars.describe(row)


def test_each_program_has_its_place():
    assert len(PROGRAMS) >= 30 and sum(p.is_healthy for p in PROGRAMS) >= 6
    for p in PROGRAMS:
        assert p.is_healthy == ("# here" not in p.path.read_text()), p.name


def test_the_neighbour_keeps_one_core_busy_and_ends():
    with neighbour.Neighbour() as n:
        assert n.process.poll() is None
    assert n.process.poll() is not None


def row(*found):
    return {"findings": [{"cause": c, "saving_ms_per_step": ms, "confidence": 0.5} for c, ms in found]}


def test_what_counts_as_the_same_first_finding():
    """Two causes may change places where the first saves less than 1.5 times what the second does."""
    first = row(("a", 10), ("b", 7))
    assert bars.is_stable([first, row(("a", 10))], is_noisy=False)
    assert bars.is_stable([first, row(("b", 10), ("a", 9))], is_noisy=False)
    assert not bars.is_stable([first, row(("c", 10), ("a", 9))], is_noisy=False)
    assert not bars.is_stable([row(("a", 10), ("b", 6)), row(("b", 10), ("a", 9))], is_noisy=False)


def test_silence_is_stable_in_noise_alone_and_with_a_reason():
    silent = {"findings": [], "reasons": ["not judged: loader-too-slow (other programs kept the machine busy)"]}
    assert bars.is_stable([row(("a", 10)), silent], is_noisy=True)
    assert not bars.is_stable([row(("a", 10)), silent], is_noisy=False)
    assert not bars.is_stable([row(("a", 10)), {"findings": [], "reasons": []}], is_noisy=True)
