"""Frames of the interpreter, without torch: stacks are what Python says; the two ways to read them on 3.13 agree."""

import os
import sys

import pytest

record = pytest.importorskip("tachograph._record")
from recorded import run  # noqa: F401

HERE = os.path.basename(__file__)


def mark():
    """Python's own answer, read where the label begins."""
    frame, seen = sys._getframe(), []
    with record.record_function("here"):
        while frame:
            seen.append((os.path.basename(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
    return seen


class Walk:
    def __init__(self):
        self.seen = [found for found in self.steps() if found]

    def steps(self):
        yield from filter(lambda _: mark(), [1])
        yield sorted([2, 1], key=lambda n: (mark(), n)[1])


def work():
    async def later():
        return Walk().seen, mark()

    coroutine = later()
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


def stacks(recorded):
    texts = [[os.path.basename(frame) for frame in stack] for stack in recorded.stacks("here")]
    assert len(texts) == 4 and all(texts)
    return texts


@pytest.fixture(params=[pytest.param("read", marks=pytest.mark.frames), "published"])
def way(request):
    """Read from frames, or asked of Python's own functions, as on a Python with frames of another layout."""
    if request.param == "published" and record.frames() is None:
        assert "stacks are taken by Python's own functions" in record.frames_falsify("code", 8)
        yield
        assert record.frames_falsify("code", 0) is None
    else:
        yield


def test_stacks_are_what_python_says(run, way):
    result = run(record.STACKS, work)
    seen = result.result[1]
    ours = stacks(result)[-1]
    # of each frame outside mark the line that makes the call; mark itself has gone on to its loop
    assert ours[1 : len(seen)] == [f"{path}({line}): {name}" for path, line, name in seen[1:]]
    assert ours[0].startswith(HERE) and ours[0].endswith(": mark")


@pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="only 3.13 has a table and a description")
def test_the_table_and_the_description_give_the_same_stacks(run):
    try:
        found = []
        for table in (True, False):
            assert record.frames_read_by(table) and record.frames() is None
            found.append(stacks(run(record.STACKS, work)))
    finally:
        record.frames_read_by(False)
    assert found[0] == found[1]


@pytest.mark.frames
@pytest.mark.skipif(sys.version_info[:2] == (3, 13), reason="3.13 has both")
def test_other_versions_have_one_way_to_read_frames():
    assert not record.frames_read_by(True)
    assert record.frames() is None


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="says why CUDA cannot be recorded")
def test_what_is_switched_on_late_has_its_own_reason(tmp_path):
    """And what was refused before keeps its own, when the other is switched off again."""
    falsified = record.frames() is None and record.frames_falsify("code", 8)
    try:
        record.open(str(tmp_path / "a.tacho"), features=record.MODULES)
        record.resume()
        refused = record.frames()
        assert refused and record.state()["why"].startswith(refused[:200])
        record.toggle(record.CUDA, True)
        state = record.state()
        assert state["missing"] == record.MODULES | record.CUDA and state["why"].startswith("CUDA: ")
        record.toggle(record.CUDA, False)
        state = record.state()
        assert state["missing"] == record.MODULES and state["why"].startswith(refused[:200])
    finally:
        record.close()
        if falsified:
            assert record.frames_falsify("code", 0) is None
