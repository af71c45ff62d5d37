"""Performance budgets as tests: limits, baseline files, and the pytest plugin in a process of its own."""

import json

import pytest
from tachograph._budget import baseline, figures, limits

pytest_plugins = ["pytester"]
pytest.importorskip("torch")  # here: pytester forgets what a test imports, and torch is imported once


@pytest.mark.parametrize(
    ("quantity", "text", "value", "inside", "outside"),
    [
        ("step_p50", "< 30 ms", 30e6, 29_999_999, 30_000_000),
        ("step_p99", "<= 1.5s", 1.5e9, 1_500_000_000, 1_500_000_001),
        ("allocs", "<= 1_000", 1000, 1000, 1001),
        ("alloc_bytes", "< 2 MiB", 2097152, 2097151, 2097152),
    ],
)
def test_a_limit_reads_as_it_is_written(quantity, text, value, inside, outside):
    limit = limits.parse(quantity, text)
    assert limit.value == value and limit.holds(inside, None) and not limit.holds(outside, None)


def test_a_limit_may_hang_on_the_baseline():
    limit = limits.parse("ops", "baseline +10%")
    assert limit.holds(110, 100) and not limit.holds(111, 100)
    assert limits.parse("ops", "baseline").holds(100, 100) and not limits.parse("ops", "baseline").holds(101, 100)


@pytest.mark.parametrize(
    ("quantity", "text", "said"),
    [
        ("step_p51", "< 1 ms", "no quantity: there are step_p50"),
        ("step_p50", "< 30", "units: ns, us"),
        ("allocs", "< 3 kg", "it is a count"),
        ("allocs", "3", r"a limit is '< 30' or 'baseline \+10%'"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_is(quantity, text, said):
    with pytest.raises(ValueError, match=said):
        limits.parse(quantity, text)


def test_figures_are_shown_with_a_unit():
    assert limits.shown("step_p50", 30_400_000) == "30.4 ms" and limits.shown("step_p50", 999) == "999 ns"
    assert limits.shown("alloc_bytes", 2_500_000) == "2.5 MB" and limits.shown("ops", 12.5) == "12.5"


def test_figures_of_a_trace_are_a_step(opened):
    """Two steps of 100 us and 300 us; three operators; 30 bytes and 10 allocated, 30 freed between."""

    def event(name, cat, ts, dur):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}

    def memory(ts, size, total):
        args = {"Bytes": size, "Addr": 4096 + abs(size), "Device Type": 0, "Device Id": -1, "Total Allocated": total}
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}  # fmt: skip

    events = [event("ProfilerStep#0", "user_annotation", 0, 100), event("ProfilerStep#1", "user_annotation", 100, 300)]
    events += [event("aten::add", "cpu_op", ts, 5) for ts in (10, 110, 310)]
    events += [memory(11, 30, 30), memory(12, -30, 0), memory(111, 10, 10)]
    trace = opened({"traceEvents": events})
    found = figures.figures(trace, set(limits.QUANTITIES))
    assert found["step_p50"] == found["step_mean"] == 200_000 and found["step_max"] == 300_000
    assert found["ops"] == 1.5 and found["kernels"] == 0
    assert found["allocs"] == 1 and found["alloc_bytes"] == 20 and found["peak_bytes"] == 30
    assert figures.figures(trace, {"ops"}) == {"ops": 1.5}


def test_only_a_machine_that_others_use_is_busy():
    load = figures.Load()
    for wait_pct, cores, others_cores, own_cores, busy in (
        (20, 2, 0.8, 1.0, True),
        (20, 2, 0.0, 1.9, False),  # the program's own threads wait for each other
        (2, 16, 14.4, 1.0, False),  # there is a core left
        (2, 2, 1.4, 0.5, True),  # there is none: what the test does beside them is not its own pace
        (2, 2, 0.3, 1.5, True),
        (2, 2, 0.2, 1.8, False),  # what runs on any machine
        (20, 2, None, 1.0, True),
        (2, 2, None, 1.0, False),
    ):
        load.wait_pct, load.cores, load.others_cores, load.own_cores = wait_pct, cores, others_cores, own_cores
        assert load.busy == busy, (wait_pct, cores, others_cores, own_cores)
    load.wait_pct, load.cores, load.others_cores = 20, 2, 0.8
    assert load.words() == "the test had no core for 20 % of its time, and other programs used 40 % of all cores"


def test_a_baseline_lies_below_its_folder_whatever_the_test_is_called(tmp_path):
    assert (
        baseline.path_of(tmp_path, "tests/test_a.py::test_b[c]") == tmp_path / "tests" / "test_a.py" / "test_b[c].json"
    )
    odd = baseline.path_of(tmp_path, "../../etc/test_a.py::test_b[../../x y]")
    assert tmp_path in odd.parents and ".." not in odd.parts


def test_what_is_no_baseline_is_said(tmp_path):
    path = tmp_path / "a.json"
    assert baseline.read(path) is None
    for text in ("{", "[]", '{"version": 1}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="no baseline file"):
            baseline.read(path)
    path.write_text('{"version": 2}')
    with pytest.raises(ValueError, match="version 2"):
        baseline.read(path)
    here = {"cpu": "a", "cpu_cores": 2, "gpu": None, "threads": 2, "torch": "2", "python": "3.11.7"}
    assert baseline.differences(here, {**here, "python": "3.11.8"}) == []
    assert baseline.differences(here, {**here, "threads": 1}) == ["threads is 1, of the baseline 2"]


PROGRAM = """
import pytest, torch
import tachograph._budget.figures as figures

class Quiet(figures.Load):
    busy = False
class Busy(figures.Load):
    busy = True
    def words(self): return "the test had no core for 50 % of its time"

@pytest.fixture(autouse=True)
def load(request, monkeypatch):
    monkeypatch.setattr(figures, "Load", Busy if "busy" in request.node.name else Quiet)

def step():
    torch.empty(8)  # one operator, one allocation of 32 bytes

@pytest.mark.tachograph(ops="<= 1", allocs="<= 1", alloc_bytes="<= 32", step_p50="< 100 s")
def test_kept(tachograph_steps):
    assert len([step() for _ in tachograph_steps(5, warmup=1)]) == 6

@pytest.mark.tachograph(allocs="< 1")
def test_too_many(tachograph_steps):
    for _ in tachograph_steps(5):
        step()

@pytest.mark.tachograph(step_p50="< 1 ns")
def test_too_long(tachograph_steps):
    for _ in tachograph_steps(3):
        step()

runs = []
@pytest.mark.tachograph(step_p50="< 1 ns")
def test_too_long_and_busy(tachograph_steps):
    runs.append(1)
    for _ in tachograph_steps(3):
        step()

def test_was_repeated_twice(tachograph_steps):
    assert len(runs) == 3 and list(tachograph_steps(2, warmup=1)) == [-1, 0, 1]

@pytest.mark.tachograph(allocs="<= 4")
def test_without_steps_the_body_is_one():
    for _ in range(4):
        step()

@pytest.mark.tachograph(allocs="baseline")
def test_of_baseline(tachograph_steps):
    for _ in tachograph_steps(2):
        step()

@pytest.mark.tachograph(ops="many")
def test_no_limit():
    pass
"""


def test_the_plugin_judges_marked_tests(pytester):
    pytester.makepyfile(test_program=PROGRAM)
    done = pytester.runpytest_inprocess("--tachograph-md", "summary.md", "--strict-markers", "-rs")
    done.assert_outcomes(failed=4, passed=3, skipped=1)
    out = done.stdout.str()
    for line in (
        "over budget: allocs is 1, the limit < 1",
        "over budget: step_p50 is ",
        "busy machine in each of 3 tries: the test had no core for 50 % of its time; over budget",
        "run pytest --tachograph-update test_program.py::test_of_baseline and commit the file",
        "@pytest.mark.tachograph: ops='many': a limit is",
        "kept     test_program.py::test_kept: allocs 1, limit <= 1",
    ):
        assert line in out, (line, out)
    summary = (pytester.path / "summary.md").read_text()
    assert summary.startswith("### Performance budgets: 5 kept, 2 exceeded")
    assert "| ❌ | `test_program.py::test_too_many` | allocs | 1 | &lt; 1 |  |  |" in summary


def test_a_busy_machine_writes_no_baseline_that_holds_times(pytester):
    """Also where other limits of the test are counts, which a busy machine does not change."""
    body = """(tachograph_steps):
    for _ in tachograph_steps(2):
        step()
"""
    tests = f"""
@pytest.mark.tachograph(allocs="baseline", step_p50="baseline +10%")
def test_busy_time_and_count{body}
@pytest.mark.tachograph(allocs="baseline")
def test_busy_count{body}
"""
    pytester.makepyfile(test_program=PROGRAM + tests)
    done = pytester.runpytest_inprocess("--tachograph-update", "-k", "busy and count", "-rs")
    done.assert_outcomes(passed=1, skipped=1)
    written = sorted(path.name for path in pytester.path.rglob("*.json"))
    assert written == ["test_busy_count.json"]
    assert "its time; no baseline written" in done.stdout.str()


def test_a_baseline_is_written_and_held_against(pytester):
    pytester.makepyfile(test_program=PROGRAM)
    done = pytester.runpytest_inprocess("--tachograph-update", "-k", "baseline")
    assert "written  test_program.py::test_of_baseline: allocs 1, limit baseline" in done.stdout.str()
    path = pytester.path / "tachograph-baselines" / "test_program.py" / "test_of_baseline.json"
    assert json.loads(path.read_text())["figures"] == {"allocs": 1.0}
    path.write_text(path.read_text().replace('"allocs": 1.0', '"allocs": 0.5'))
    done = pytester.runpytest_inprocess("-k", "baseline")
    done.assert_outcomes(failed=1)
    assert "allocs is 1, the limit <= 0.5 (baseline)" in done.stdout.str()
