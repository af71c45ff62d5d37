"""What is found of torch.compile in documents that were written for it: each trouble, and what is like it."""

import pytest

STEP_US, STEPS = 10_000, 20
START_S = 1_795_000_000


def row(function="f", id="0/0", at_us=0.0, ms=50.0, **fields):
    start_us = START_S * 1e6 + at_us
    return {
        "compile_id": id,
        "co_name": function,
        "co_filename": "/home/me/train.py",
        "co_firstlineno": 12,
        "start_time_us": int(start_us),
        "entire_frame_compile_time_s": ms / 1e3,
        "is_forward": True,
        **fields,
    }


def document(rows, run=None, long_step=None, long_us=0, ops=20, region=False):
    """Steps of 10 ms, full of operators; one of them may be longer."""
    events, now = [], 0

    def add(name, category, start, dur):
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": START_S * 1e6 + start, "dur": dur}
        )

    for step in range(STEPS):
        length = STEP_US + (long_us if step == long_step else 0)
        add(f"ProfilerStep#{step}", "user_annotation", now, length)
        if region:
            add("Torch-Compiled Region: 0/0", "cpu_op", now + 1, STEP_US - 2)
        for k in range(ops):
            add("aten::mm", "cpu_op", now + 2 + k * (STEP_US - 10) / ops, (STEP_US - 10) / ops * 0.9)
        now += length
    members = {"compiles.1": {"lost": 0, "lost_ns": 0, "rows": rows}}
    if run:
        members["run"] = run
    return {"traceEvents": events, **members}


@pytest.fixture
def found(opened):
    """found(document): findings by cause."""

    def look(document):
        with opened(document) as trace:
            return {row["cause"]: row for row in trace.ask("findings")}

    return look


OURS = {"recompilation", "recompile-limit", "uncompiled-function", "compile-time", "graph-break"}
GUARD = "0/0: n == 3                     # return x * n  # train.py:14 in f\nUser stack trace:\n"


def test_one_recompilation_in_the_window_is_named(found):
    again = row(id="0/1", at_us=7 * STEP_US + 100, ms=320, recompile_reason=GUARD)
    x = found(document([row(at_us=-1e6), again], long_step=7, long_us=320_000))["recompilation"]
    assert "in 1 of 20 steps" in x["evidence"] and "33.0 times the usual 10.00 ms" in x["evidence"]
    assert x["evidence"].endswith("this no longer holds: n == 3")
    assert (x["file"], x["line"]) == ("train.py", 12) and "Python value" in x["advice"]
    assert x["cost_ns"] == 16_000_000 and x["severity"] != "high"


def test_one_recompilation_is_spread_over_all_steps_that_were_timed(found):
    """320 ms in the 7th of 20 steps of the window; the run has 1000 more of 10 ms, and warmed up for 30 before."""
    again = row(id="0/1", at_us=7 * STEP_US + 100, ms=320, recompile_reason=GUARD)
    step = [10_000_000, 10_000_000, 0]
    timed = step * 30 + [10_000_000, 10_000_000, 1] * 20 + step * 1000
    timed[(30 + 7) * 3] += 320_000_000
    run = {"run_ns": 20 * 10**9, "first_recorded_step": 30, "timed": timed, "long_steps": []}
    x = found(document([row(at_us=-1e6), again], run=run, long_step=7, long_us=320_000))["recompilation"]
    assert x["share_pct"] == pytest.approx(100 * 320 / (1020 * 10 + 320), rel=0.01)
    assert x["cost_ns"] == pytest.approx(320e6 / 1020, rel=0.01) and x["severity"] == "low"


@pytest.mark.parametrize(
    "near_miss",
    [
        [row(at_us=7 * STEP_US)],  # compiled for the first time
        [row(at_us=-1e6), row(id="0/1", at_us=-5e5, recompile_reason=GUARD)],  # again, before the window
        [row(at_us=-1e6), row(id="0/1", at_us=7 * STEP_US, ms=5, recompile_reason=GUARD)],  # hardly any time
        [row(at_us=7 * STEP_US, is_forward=False, duration_us=50_000)],  # the backward of what is compiled
        [row(at_us=-1e6, break_reason="print", break_filename="/home/me/train.py", break_lineno=13)],  # before it
        [row(fail_type="Unsupported", fail_reason="x", co_filename="/venv/lib/python3.11/site-packages/lib/a.py")],
        [row(at_us=-1e6, is_runtime=True, ms=9000)],  # autotuning, which is another row's time
        [],
    ],
)
def test_what_is_like_it_and_healthy(found, near_miss):
    assert not OURS & set(found(document(near_miss)))


def test_the_limit_is_a_finding(found):
    versions = [row("g", f"3/{n}", -1e6 + n, 100) for n in range(8)]
    reason = "Dynamo recompile limit exceeded\n  Explanation: too many\n"
    guard = "3/7: tensor 'x' size mismatch at index 0. expected 9, actual 10"
    last = {"compile_id": "3/8", "fail_type": "Unsupported", "fail_reason": reason, "recompile_reason": guard}
    x = found(document([*versions, last]))["recompile-limit"]
    assert "made 8 versions of it in 0.80 s" in x["evidence"] and "expected 9, actual 10" in x["evidence"]
    assert x["where"] == "train.py(12): g" and "dynamic=True" in x["advice"]


def test_a_function_that_is_left_out_is_a_finding(found):
    fail = {
        "fail_type": "Unsupported",
        "fail_reason": "Failed to trace\n  Explanation: no `print` here\n  Hint: none\n",
    }
    place = {"fail_user_frame_filename": "/home/me/train.py", "fail_user_frame_lineno": 15}
    x = found(document([row("h", **fail, **place)]))["uncompiled-function"]
    assert "Failed to trace: no `print` here" in x["evidence"] and "Hint" not in x["evidence"]
    assert (x["where"], x["line"]) == ("train.py(15): h", 15)


@pytest.mark.parametrize("compiled_s, run_s, is_found", [(151, 197, True), (9, 20, False), (30, 200, False)])
def test_a_run_that_mostly_compiles(found, compiled_s, run_s, is_found):
    rows = [
        row(f"f{n}", f"{n}/0", -1e8 + n, compiled_s * 100, backend_compile_time_s=compiled_s / 20) for n in range(10)
    ]
    x = found(document(rows, run={"run_ns": run_s * 10**9})).get("compile-time")
    assert (x is not None) == is_found
    if x:
        assert "takes 151.0 s of the program's 197.0 s (76.6 %): 10 compilations" in x["evidence"]
        assert "dynamo 75.5 s, the backend 75.5 s" in x["evidence"]


def test_what_was_lost_counts(found, opened):
    lost = document([row(ms=12_000)], run={"run_ns": 100 * 10**9})
    lost["compiles.1"].update(lost=5, lost_ns=38 * 10**9)
    assert "takes 50.0 s of the program's 100.0 s" in found(lost)["compile-time"]["evidence"]
    with opened(lost) as trace:
        assert any("5 more compilations, 38.000 s" in note for note in trace.ask("compiles").notes)


def test_what_is_compiled_is_not_advised_to_be_compiled(found):
    advice = {
        region: found(document([], ops=2500, region=region))["many-small-ops"]["advice"] for region in (False, True)
    }
    assert "torch.compile" in advice[False]
    assert "torch.compile" not in advice[True] and "compiled already" in advice[True]


@pytest.mark.parametrize(
    "value", ["[]", "{}", '{"rows": 3}', '{"rows": [3, "x", null, {}, []]}', '{"lost": -5}', '"x"']
)
def test_members_of_any_form_are_read(opened, value):
    import json

    strange = document([])
    strange["compiles.1"] = json.loads(value)
    with opened(strange) as trace:
        trace.ask("compiles"), trace.ask("compiles", by="function"), trace.ask("findings")


def test_texts_are_decoded(opened):
    strange = row("naïve", "1/0", recompile_reason='0/0: name == "é\\\\n\U0001f600"   # x', co_filename="/a/é.py")
    with opened(document([row(), strange])) as trace:
        (x,) = [x for x in trace.ask("compiles") if x["function"] == "naïve"]
    assert x["place"] == "é.py(12)" and x["guard"].startswith('name == "é')


def test_rows_of_the_log_that_the_recording_has_count_once(opened):
    both = document([row(), row(id="0/1", at_us=500)])
    both["compiles.1.later"] = {"rows": [row(id="0/1", at_us=500), row(id="0/2", at_us=900)]}
    with opened(both) as trace:
        assert [x["id"] for x in trace.ask("compiles")] == ["0/0", "0/1", "0/2"]


def test_a_very_long_list_is_cut_and_the_rest_is_counted(opened):
    with opened(document([row(id=f"{n}/0", at_us=n) for n in range(10_050)])) as trace:
        answer = trace.ask("compiles")
    assert len(list(answer)) == 10_000 and any("50 more compilations" in note for note in answer.notes)


def test_functions_are_added_up(opened):
    rows = [row(id=f"0/{n}", ms=10, at_us=n, recompile_reason=None if n == 0 else GUARD) for n in range(4)]
    with opened(document([*rows, row("other", "1/0", ms=7)])) as trace:
        sums = {x["function"]: x for x in trace.ask("compiles", by="function")}
        single = list(trace.ask("compiles"))
    assert (sums["f"]["times"], sums["f"]["total_ns"], sums["f"]["guard"]) == (4, 40_000_000, "n == 3")
    assert sums["other"]["times"] == 1 and sums["other"]["id"] == "1/0" and sums["f"]["id"] is None
    assert sum(x["total_ns"] for x in single) == sum(x["total_ns"] for x in sums.values())
