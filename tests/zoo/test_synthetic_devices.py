"""Findings of the planted programs of synthetic_devices.py, and of those that only look like them."""

import re

import pytest
from synthetic_classes import CASES, memory_by_step
from test_synthetic import ask, check_sound

GRADES = ["low", "medium", "high"]
# What an expert calls a cause, and what its row is called.
CAUSES = {
    "tensor cores unused": ["mixed-precision-unused"],
    "mixed precision": ["mixed-precision-unused"],
    "fuse element-wise kernels in a row": ["unfused-elementwise"],
    "fuse": ["unfused-elementwise"],
    "layout": ["layout-conversion"],
    "copies on the device": ["device-copies"],
    "exposed copy": ["blocking-copy"],
    "math attention": ["handwritten-attention"],
    "product far below the best rate": ["slow-product"],
    "memory-bound": ["memory-bound"],
    "idle device": ["idle-device"],
    "the device waits for the host": ["idle-device", "many-small-ops"],
    "launch-bound": ["many-small-ops"],
    "many small operators": ["many-small-ops"],
    "many small kernels": ["many-small-ops"],
    "loop": ["many-small-ops", "tensor-index-loop", "per-sample-loop"],
    "a loop": ["tensor-index-loop", "per-sample-loop", "per-parameter-loop", "tiny-batches"],
    "allocator churn": ["allocator-churn"],
    "communication not overlapped": ["communication-not-overlapped"],
    "low occupancy": ["low-occupancy"],
    "the host waits for the device": ["host-synchronisation"],
    "synchronisation": ["host-synchronisation"],
    "optimizer with a kernel for each parameter": ["single-tensor-optimizer"],
    "a slow function": ["slow-python-transform"],
    "no requests": ["idle-device"],
    "indexing": ["indexing"],
    "sorting": ["sorting"],
    "filling": ["filling"],
    "random numbers": ["random-numbers"],
    "unfused loss": ["unfused-loss"],
    "passes of the update": ["optimizer-passes"],
    "FP64": ["double-precision"],
    "small collectives": ["unbucketed-communication"],
    "few blocks": ["low-occupancy"],
    "type conversions": ["type-conversions"],
    "dense gradient of a table": ["dense-embedding-gradient"],
}
OF_CLASS = {"pinned-copies": ["blocking-copy"], "idle-server": ["idle-device"]}


class Ranks:
    """The programs of several ranks, written as a folder."""

    def __init__(self, programs):
        self.programs = programs

    def write(self, path):
        folder = path.with_name("ranks")
        folder.mkdir(exist_ok=True)
        for rank, program in enumerate(self.programs):
            program.write(folder / f"rank-{rank}.json")
        return folder


def causes(words):
    return [c for w in words for c in CAUSES.get(w, [])]


def faults_of(case, rows, notes):
    """What is wrong with the answer, in words."""
    faults, grades = [], [GRADES.index(r["severity"]) for r in rows]
    text = " ".join(f"{r['cause']} {r['evidence']} {r['advice']}" for r in rows)
    wanted = causes(case.words) + (OF_CLASS.get(case.cls, []) if case.words else [])
    found = [r for r in rows if r["cause"] in wanted and (not case.where or any(w in r["where"] for w in case.where))]
    if found and any(w in found[0]["where"] for w in case.where_not):
        faults.append(f"place {found[0]['where']}")
    if case.least and not found:
        faults.append(f"missing: {wanted} at {case.where}")
    for r in found[:1]:
        saving = None if r["saving_ns"] is None else r["saving_ns"] / 1e6
        if case.cost_ms and not 0.9 * case.cost_ms <= r["cost_ns"] / 1e6 <= 1.1 * case.cost_ms:
            faults.append(f"cost {r['cost_ns'] / 1e6:.2f} ms, not {case.cost_ms}")
        if case.saving_ms and not (saving and case.saving_ms[0] * 0.98 <= saving <= case.saving_ms[1] * 1.02):
            faults.append(f"saving {saving} ms, not {case.saving_ms}")
        if saving and (case.most == "low" or (case.near and case.cls == "idle-server")):
            faults.append(f"saving {saving} ms, and none is known")
        if case.advice and not any(a in r["advice"] for a in case.advice):
            faults.append(f"advice without {case.advice}")
        if case.least and GRADES.index(r["severity"]) < GRADES.index(case.least):
            faults.append(f"is {r['severity']}")
        if case.most and GRADES.index(r["severity"]) > GRADES.index(case.most):
            faults.append(f"is {r['severity']}")
    faults += [f"absent cause {r['cause']}" for r in rows if r["cause"] in causes(case.absent)]
    if case.most is None and rows and max(grades) > 0 and not case.absent:
        faults.append("found something")
    if case.no_high and 2 in grades:
        faults.append("something is high")
    for said in case.not_say:
        where = " ".join(notes) if said.startswith("note:") else text
        faults += [f"says {said}"] if said.removeprefix("note:").lower() in where.lower() else []
    return faults


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_planted(tmp_path, case):
    made = case.make()
    rows, notes = ask(tmp_path, Ranks(made) if isinstance(made, list) else made)
    if not isinstance(made, list):
        check_sound(rows, made)
    assert not faults_of(case, rows, notes), (case.planted, rows, notes)


@pytest.mark.parametrize(("times", "usual", "mean"), [
    ((1000, 1000, 1000, 1000, 1000, 4000, 4000, 4000, 1000), 1.0, 2.0),  # the median is less
    ((2000, 2000, 2000, 2000, 2000, 2000, 0, 0, 2000), 14 / 9, 14 / 9),  # the mean is less
])  # fmt: skip
def test_allocator_churn_says_which_step_it_is_of(tmp_path, times, usual, mean):
    """The cost is that of the usual step, as of all findings; the mean stands beside it. Calls begin where the device
    has just ended, so that it stands still for all but the launch behind them."""
    rows, _ = ask(tmp_path, memory_by_step(times))
    (row,) = [r for r in rows if r["cause"] == "allocator-churn"]
    assert row["cost_ns"] / 1e6 == pytest.approx(usual, rel=0.02)
    assert f"{row['cost_ns'] / 1e6:.2f} ms of the usual step" in row["evidence"]
    said = re.search(r"and for ([\d.]+) ms on average", row["evidence"])
    assert float(said[1]) == pytest.approx(mean, rel=0.02)
