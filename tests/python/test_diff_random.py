"""tg.diff on random traces: its figures a step are those of the other questions, divided by the steps; what renames
streams, swaps sides or holds a trace against itself changes nothing but what it must."""

import pathlib
import tempfile

import pytest
import reference
import reference_plugin
import traces
from hypothesis import HealthCheck, given, settings, strategies as st

tg = pytest.importorskip("tachograph")
SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
CONTENT = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "size": st.integers(20, 90),
        "grain": st.sampled_from((250, 1000)),
        "steps": st.integers(1, 4),
        "python": st.booleans(),
        "gpu": st.booleans(),
        "memory": st.booleans(),
    }
)
FIGURES = {
    "calls": "calls",
    "cpu": "cpu_ns",
    "self_cpu": "self_cpu_ns",
    "device": "device_ns",
    "self_device": "self_device_ns",
}


def opened(content, folder, change=None):
    ranks = traces.build(**content)
    if change:
        change(ranks)
    folder.mkdir()
    return tg.open(traces.write(ranks, folder, 1, plain=True))


def by_row(diff):
    return {(r["by"], r["name"], r["quantity"]): r for r in diff.table}


def kept_steps(trace):
    """Numbers of the steps that count, or None where the trace has none."""
    rows = trace.ask("steps").to_dicts()
    return None if not rows or rows[0]["name"] == "whole recording" else [r["step"] for r in rows]


def rows_of(trace, question, **args):
    """What was never recorded has no rows."""
    try:
        return trace.ask(question, **args).to_dicts()
    except tg.TachographError as error:
        assert error.code == "NO_DATA"
        return []


def codes_of(row):
    """Of a step: a trace without compiled code and replayed graphs does not divide it, and all of it is eager."""
    if row["compiled_ns"] is None:
        return {"eager": row["total_ns"] - row["dataloader_ns"] - row["bare_ns"]}
    return {name: row[f"{name}_ns"] for name in ("compiled", "replayed", "eager")}


def has_code(trace):
    return any(row["compiled_ns"] is not None for row in rows_of(trace, "steps"))


def expected(trace, divides_code):
    """{(by, name, quantity): figure a step} from ops, kernels and steps."""
    steps = kept_steps(trace)
    args, count = ({"step": steps}, len(steps)) if steps else ({}, 1)
    want = {}
    for row in rows_of(trace, "ops", **args):
        for quantity, column in FIGURES.items():
            want["op", row["name"], quantity] = row[column] / count
    rows = trace.ask("steps").to_dicts()
    for part in ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other"):
        want["category", part, "time"] = sum(r[part + "_ns"] for r in rows) / count
    for row in rows if divides_code else []:
        for name, ns in codes_of(row).items():
            want["category", name, "code"] = want.get(("category", name, "code"), 0) + ns / count
    want["step", "step", "mean"] = sum(r["total_ns"] for r in rows) / count
    for row in rows_of(trace, "kernels", **args):
        for quantity, column in (("calls", "calls"), ("device", "total_ns")):
            key = "kernel", row["name"], quantity
            want[key] = want.get(key, 0) + row[column] / count
    return want


@SETTINGS
@given(CONTENT, CONTENT)
def test_figures_are_those_of_the_other_questions(one, other):
    with tempfile.TemporaryDirectory() as folder:
        sides = [opened(content, pathlib.Path(folder) / name) for content, name in ((one, "a"), (other, "b"))]
        try:
            found = by_row(tg.diff(*sides))
        except tg.TachographError as error:
            assert error.code == "NO_DATA"  # neither steps nor operators
            return
        divides_code = any(map(has_code, sides))
        for side, trace in zip("ab", sides):
            want = expected(trace, divides_code)
            for key, row in found.items():
                if key[0] in ("op", "kernel", "category") or key[2] == "mean":
                    assert row[side] == pytest.approx(want.get(key, 0), rel=1e-9, abs=1e-6), (side, key)
            assert {k for k, v in want.items() if v} <= found.keys()


def in_modules(events):
    """{(module path, quantity): figure} of the whole recording: own times of the operators in it, and of those in
    modules inside it."""
    up, want = {}, {}
    for track in reference.group_by(reference.slices(events), reference.track_of).values():
        up.update(reference.parents(track))
    for n in reference_plugin.forest(events)[0]:
        if not reference_plugin.in_table(n.event):
            continue
        path, around = [], up[n.event.i]
        while around is not None:
            if around.cat == "python_function" and reference.arg(around, "Python module id") is not None:
                path.insert(0, around.name.removeprefix("nn.Module: "))
            around = up[around.i]
        host = n.event.dur - sum(c.event.dur for c in n.children) - n.call_ns
        device = sum(e.dur for work in n.calls for e in work)
        own = {"calls": 1, "self_cpu": host, "self_device": device}
        figures = [
            (k, {"cpu": host, "device": device} | (own if k == len(path) else {})) for k in range(1, len(path) + 1)
        ]
        for k, row in figures:
            for quantity, value in row.items():
                key = " / ".join(path[:k]), quantity
                want[key] = want.get(key, 0) + value
    return want


@SETTINGS
@given(CONTENT, CONTENT)
def test_modules_and_memory(one, other):
    """Of recordings without steps, so that a figure is that of the whole."""
    one, other = ({**content, "steps": 0, "python": True} for content in (one, other))
    with tempfile.TemporaryDirectory() as folder:
        sides = [opened(content, pathlib.Path(folder) / name) for content, name in ((one, "a"), (other, "b"))]
        if any(t.ask("steps").to_dicts()[0]["name"] != "whole recording" for t in sides if rows_of(t, "steps")):
            return  # some annotation or operator comes back again and again
        try:
            found = by_row(tg.diff(*sides))
        except tg.TachographError as error:
            assert error.code == "NO_DATA"
            return
    for side, content in zip("ab", (one, other)):
        events = traces.build(**content)[0].events
        modules = in_modules(events)
        peaks = {
            device: row["peak_net_bytes"] if row["peak_allocated_bytes"] is None else row["peak_allocated_bytes"]
            for device, row in reference.memory(events).items()
        }
        for (by, name, quantity), row in found.items():
            if by in ("module", "memory"):
                want = modules.get((name, quantity), 0) if by == "module" else peaks.get(name, 0)
                assert row[side] == pytest.approx(want, rel=1e-9), (side, by, name, quantity)
        assert {("module", *key) for key, value in modules.items() if value} <= found.keys()


@SETTINGS
@given(CONTENT, CONTENT)
def test_swapped_renamed_and_the_same(one, other):
    def rename(ranks):
        for event in ranks[0].events:
            if event.cat in traces.DEVICE:
                event.tid, event.args["stream"] = event.tid + 1000, event.args.get("stream", 0) + 1000

    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        a, b, renamed = opened(one, here / "a"), opened(other, here / "b"), opened(one, here / "renamed", rename)
        try:
            forth = by_row(tg.diff(a, b))
        except tg.TachographError as error:
            assert error.code == "NO_DATA"
            return
        assert by_row(tg.diff(renamed, b)) == forth
        back = by_row(tg.diff(b, a))
        assert back.keys() == forth.keys()
        for key, row in forth.items():
            assert back[key]["delta"] == -row["delta"], key
        for row in tg.diff(a, a).table:
            assert row["delta"] == 0 and row["verdict"] in ("no difference", "too few steps")
            assert row["low"] is None or row["low"] <= 0 <= row["high"]
