"""Where a program without a device reads values: `syncs` of recordings made here, one line for each kind, and the
finding about tensors that are printed."""

import contextlib
import io
import json

import pytest
import tachograph as tg
from rank_runs import Asker
from tachograph import _record
from tachograph._collect.native import NativeRecording

torch = pytest.importorskip("torch")
STEPS = 10


@pytest.fixture(scope="session")
def ask(tachograph_path):
    return Asker(tachograph_path)


def item(x):
    for row in range(10):
        if x[row].max().item() > 1e9:
            raise AssertionError


def truth(x):
    if x.max() > 1e9:
        raise AssertionError


def number(x):
    return float(x.sum())


def listed(x):
    return x[0].tolist()


def array(x):
    return x[1].detach().numpy()


def printed(x):
    print(x.mean())


def printed_number(x):
    print(x.mean().item())


def nothing(x):
    return x.sin()


KINDS = {
    item: (".item()", 10),
    truth: ("if tensor", 1),
    number: (".item()", 1),
    listed: (".tolist() or .numpy()", 1),
    array: (".tolist() or .numpy()", 1),
    printed: ("print of a tensor", 1),
    printed_number: (".item()", 1),
    nothing: None,
}


NAMED = (  # by the calls of Python that with_stack records
    {listed: ".tolist()", array: ".numpy()"} if _record.frames() is None else {}
)


def through_profile(path, work):
    activities = [tg.ProfilerActivity.CPU]
    with tg.profile(activities=activities, with_stack=True, backend="native") as profile:
        for _ in range(STEPS):
            work()
            profile.step()
    profile.export_chrome_trace(str(path))


def as_run_records(path, work):
    with NativeRecording(path):
        for _ in range(STEPS):
            work()


@pytest.mark.parametrize(
    ("record", "name", "named"), [(through_profile, "reads.json", NAMED), (as_run_records, "reads.tacho", {})]
)
def test_each_kind_has_its_line(ask, tmp_path, record, name, named):
    x = torch.randn(32, 64)
    path = tmp_path / name
    with contextlib.redirect_stdout(io.StringIO()):
        record(path, lambda: [work(x) for work in KINDS])
    rows = ask(path, "syncs")
    found = {r["where"].rpartition(" ")[2]: (r["kind"], r["calls"]) for r in rows}
    assert found == {work.__name__: (named.get(work, kind[0]), STEPS * kind[1]) for work, kind in KINDS.items() if kind}
    for r in rows:
        assert r["where"].startswith("test_syncs_host.py(") and r["idle_ns"] is None and r["waits_for"] is None
        assert 0 < r["max_ns"] <= r["wait_ns"]
    assert "what Python makes of them is not in it" in ask.notes(path, "syncs")


# ---- the finding, by hand ------------------------------------------------------------------------------------


def event(cat, name, ts, dur, stack=None):
    args = {"Call stack": stack} if stack else {}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def printing(path, print_us, step_us=1000, long=None, steps=8):
    """A tensor is printed in each step, by three operators from 100 us on; `long`: the step with a print of 900 us."""
    text = "torch/_tensor_str.py(%d): __init__;torch/_tensor.py(564): __repr__;train.py(7): train"
    events = []
    for n in range(steps):
        at, last = n * step_us, 100 + (900 if n == long else print_us)
        events += [
            event("user_annotation", f"ProfilerStep#{n}", at, step_us),
            event("cpu_op", "aten::add", at + 10, 50, "train.py(6): train"),
            event("cpu_op", "aten::abs", at + 100, 5, text % 150),
            event("cpu_op", "aten::item", at + 110, 1, text % 160),
            event("cpu_op", "aten::ne", at + 111, last - 111, text % 170),
            event("cpu_op", "aten::mm", at + last + 1, step_us - last - 2, "train.py(8): train")
            if last < step_us
            else None,
        ]
    path.write_text(json.dumps({"traceEvents": [e for e in events if e]}))
    return path


@pytest.mark.parametrize(("print_us", "is_found"), [(300, True), (60, True), (40, False)])
def test_tensors_that_are_printed(ask, tmp_path, print_us, is_found):
    path = printing(tmp_path / "print.json", print_us)
    (row,) = ask(path, "syncs")
    assert (row["kind"], row["calls"], row["calls_per_step"], row["wait_per_step_ns"]) == (
        "print of a tensor",
        8,
        1,
        1000 * print_us,
    )
    found = [r for r in ask(path, "findings") if r["cause"] == "per-element-item"]
    assert len(found) == is_found
    for r in found:
        assert r["cost_ns"] == 1000 * print_us and r["saving_ns"] == 950 * print_us and r["line"] == 7
        assert f"prints of tensors a step: 1.0, {print_us / 1000:.2f} ms ({print_us / 10:.1f} %)" in r["evidence"]


def test_one_long_print_is_no_finding(ask, tmp_path):
    path = printing(tmp_path / "print.json", 30, long=3)
    assert not [r for r in ask(path, "findings") if r["cause"] == "per-element-item"]
