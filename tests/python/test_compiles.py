"""The question compiles: functions with trouble that was put there on purpose, and others without any."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
import tachograph as tg

# In each function the line that breaks is marked; backends are those that compile in milliseconds.
PROGRAM = """
import time
import torch
import tachograph as tg
from tachograph._collect.native import NativeRecording
import tachograph._record
import warnings

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def compiled(**options):
    return lambda function: torch.compile(function, backend="eager", **options)


x = torch.ones(4)


@compiled(dynamic=False)
def new_lengths(x):
    return (x * 2).sum()


@compiled(dynamic=False)
def new_numbers(x, scale):
    return x * len(scale)


@compiled()
def new_types(x):
    return x + 1


@compiled()
def prints(x):
    y = x * 2
    print("", end="")  # break: prints
    return y + 1


@compiled()
def takes_a_branch(x):
    y = x * 2
    if y.sum() > 0:  # break: takes_a_branch
        return y + 1
    return y - 1


@compiled()
def takes_an_item(x):
    return x * x.sum().item()  # break: takes_an_item


def sleeps_inside(x):
    time.sleep(0)  # break: calls_one_that_sleeps
    return x + 1


@compiled()
def calls_one_that_sleeps(x):
    return sleeps_inside(x * 2) * 3


@compiled()
def breaks_in_a_loop(x):
    for _ in range(3):
        x = x * 2
        print("", end="")  # break: breaks_in_a_loop
    return x


@compiled(dynamic=False)
def too_many(x):
    return x.cos()


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = "a"

    def forward(self, x):
        return x * len(self.factor)


def trouble():
    for n in range(2, 5):
        new_lengths(torch.ones(n))
        new_numbers(x, "s" * n)
    for kind in (torch.float32, torch.float64, torch.int32):
        new_types(x.to(kind))
    for function in (prints, takes_a_branch, takes_an_item, calls_one_that_sleeps, breaks_in_a_loop):
        function(x)
        function(x)
    for n in range(2, 14):
        too_many(torch.ones(n))
    module = Scaled()
    scaled = torch.compile(module, backend="eager")
    for n in range(1, 4):
        module.factor = "s" * n
        scaled(x)


def healthy():
    def same(x):
        return x * 3 + 1

    def marked_dynamic(x):
        return x.sin()

    def where_instead(x):
        return torch.where(x > 0, x, -x)

    def loop_without_break(x):
        for _ in range(3):
            x = x * 2
        return x

    def gradient(x):
        return (x * x).sum()

    def constants(x, n=3):
        return x * n

    def under_no_grad(x):
        return x.exp()

    def disabled_part(x):
        return x - 1

    def many_calls(x):
        return x.relu()

    def in_a_list(parts):
        return parts[0] + parts[1]

    made = {f.__name__: torch.compile(f, backend="eager") for f in (
        same, where_instead, loop_without_break, constants, under_no_grad, many_calls, in_a_list, disabled_part)}
    made["gradient"] = torch.compile(gradient, backend="aot_eager")
    made["marked_dynamic"] = torch.compile(marked_dynamic, backend="eager", dynamic=True)
    for n in range(3):
        for name in ("same", "where_instead", "loop_without_break", "constants", "disabled_part"):
            made[name](x)
        made["in_a_list"]([x, x])
        with torch.no_grad():
            made["under_no_grad"](x)
        made["gradient"](torch.ones(4, requires_grad=True)).backward()
        made["marked_dynamic"](torch.ones(n + 5))
    for _ in range(100):
        made["many_calls"](x)
"""
RECORD = """
import json

from torch._dynamo import callback, utils

recording = NativeRecording("trace.tacho", tg._record.LEAN)
with recording:
    {what}()
json.dump({{
    "frames": len(utils.compilation_time_metrics["_compile.compile_inner"]),
    "seconds": sum(utils.compilation_time_metrics["_compile.compile_inner"]),
    "left": len(callback.callback_handler.start_callbacks),
}}, open("truth.json", "w"))
"""


def line_of(mark):
    return next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(f"# break: {mark}"))


@pytest.fixture(scope="module")
def recorded(forks, tmp_path_factory):
    """(rows by function, what dynamo itself counts) of a program with trouble, or without; logs: of the first."""
    logs = []

    def record(what):
        folder = tmp_path_factory.mktemp(what)
        (folder / "program.py").write_text(PROGRAM + RECORD.format(what=what))
        if what == "trouble":  # torch looks for the variable when it is imported
            done = subprocess.run(
                [sys.executable, "program.py"],
                cwd=folder,
                env={**os.environ, "TORCH_TRACE": str(folder / "log")},
                capture_output=True,
                text=True,
            )
        else:
            done = forks.run(script=folder / "program.py", cwd=folder)
        assert done.returncode == 0, done.stderr
        logs.extend((folder / "log").glob("*.log"))
        rows = {}
        with tg.open(folder / "trace.tacho") as trace:
            for row in trace.ask("compiles"):
                rows.setdefault(row["function"].partition(" (")[0], []).append(row)
        return rows, json.loads((folder / "truth.json").read_text())

    return {"trouble": record("trouble"), "healthy": record("healthy"), "logs": logs}


def test_all_time_of_dynamo_is_there(recorded):
    """Against the list that dynamo keeps for its own table of compile times."""
    for what in ("trouble", "healthy"):
        rows, truth = recorded[what]
        forward = [row for all_rows in rows.values() for row in all_rows if row["kind"] != "backward"]
        assert len(forward) == truth["frames"]
        assert sum(row["total_ns"] for row in forward) == pytest.approx(truth["seconds"] * 1e9, rel=0.01)
        for row in forward:
            phases = row["dynamo_ns"] + row["backend_ns"] + row["inductor_ns"] + row["codegen_ns"]
            assert phases == row["total_ns"] > 0 and row["inductor_ns"] == 0
        assert truth["left"] == 0, "dynamo still calls us"


@pytest.mark.parametrize(
    "function, guard",
    [
        ("new_lengths", "tensor 'x' size mismatch at index 0. expected 3, actual 4"),
        ("new_numbers", "scale == 'sss'"),
        ("new_types", "tensor 'x' dtype mismatch. expected Double, actual Int"),
        ("forward", "self.factor == 'ss'"),
    ],
)
def test_the_guard_of_a_recompilation_is_named(recorded, function, guard):
    rows = recorded["trouble"][0][function]
    assert [row["kind"] for row in rows] == ["first", "again", "again"]
    assert rows[0]["guard"] is None and rows[2]["guard"] == guard
    assert all(row["outcome"] == "compiled" and row["reason"] is None for row in rows)
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if f"def {function}(" in text)
    assert abs(int(rows[0]["place"].partition("(")[2].rstrip(")")) - line) <= 1  # dynamo counts from the decorator


@pytest.mark.parametrize(
    "mark, function, words",
    [
        ("prints", "prints", "print"),
        ("takes_a_branch", "takes_a_branch", "branch"),
        ("takes_an_item", "takes_an_item", "Tensor.item()"),
        ("calls_one_that_sleeps", "sleeps_inside", "time.sleep"),
    ],
)
def test_a_break_has_its_line_and_its_reason(recorded, mark, function, words):
    broken = [row for row in recorded["trouble"][0][function] if row["broken_at"]]
    assert [row["broken_at"] for row in broken] == [f"program.py({line_of(mark)})"]
    assert words in broken[0]["reason"] and broken[0]["outcome"] == "compiled"


def test_a_break_in_a_loop_leaves_the_function_out(recorded):
    (row,) = recorded["trouble"][0]["breaks_in_a_loop"]
    assert row["outcome"] == "left out" and "print" in row["reason"]
    assert row["broken_at"] == f"program.py({line_of('breaks_in_a_loop')})"


def test_the_limit_is_named_with_its_function(recorded):
    rows = recorded["trouble"][0]["too_many"]
    assert [row["outcome"] for row in rows] == ["compiled"] * 8 + ["limit"]
    assert "limit" in rows[-1]["reason"] and rows[-1]["place"] == rows[0]["place"]


def test_healthy_functions_have_no_trouble(recorded):
    rows = recorded["healthy"][0]
    assert len(rows) == 10
    for function, compiles in rows.items():
        assert all(row["outcome"] == "compiled" and not row["reason"] and not row["guard"] for row in compiles), (
            function
        )
        assert [row["kind"] for row in compiles if row["kind"] != "backward"] == ["first"], function


# ---- logs of TORCH_TRACE


def records_of(log):
    """(JSON of the line, payload) of each record, read without us."""
    found = []
    for line in log.read_text().splitlines():
        if line[:1] in "VDIWEC" and line[5:6] == " ":
            found.append([json.loads(line[line.index("{") :]), ""])
        else:
            found[-1][1] += line.removeprefix("\t") + "\n"
    return found


def test_a_log_says_the_same_as_the_recording(recorded):
    (log,) = recorded["logs"]
    with tg.open(log) as trace:
        rows = list(trace.ask("compiles"))
    own = {row["id"]: row for all_rows in recorded["trouble"][0].values() for row in all_rows}
    assert [row["id"] for row in rows] == sorted(own, key=lambda id: own[id]["start_ns"] + own[id]["total_ns"])
    for row in rows:
        same = own[row["id"]]
        for name in ("function", "place", "kind", "outcome", "total_ns", "guard", "broken_at", "operators"):
            assert row[name] == same[name], (row["id"], name)
        assert bool(row["reason"]) == bool(same["reason"])


def test_the_sums_of_a_log_are_those_of_its_events(recorded):
    (log,) = recorded["logs"]
    records = records_of(log)
    begun, of_events_ns = [], 0
    for head, payload in records:
        event = json.loads(payload) if "chromium_event" in head else {}
        if event.get("name") == "entire_frame_compile":
            if event["ph"] == "B":
                begun.append(event["ts"])
            elif event["ph"] == "E":
                of_events_ns += (event["ts"] - begun.pop()) * 1e3
    breaks = sum(head.get("artifact", {}).get("name") == "dynamo_graph_break_reason" for head, _ in records)
    metrics = sum("compilation_metrics" in head for head, _ in records)
    with tg.open(log) as trace:
        rows = list(trace.ask("compiles"))
        events = sum(row["dur_ns"] for row in trace.ask("events") if row["name"] == "entire_frame_compile")
    assert len(rows) == metrics and sum(row["broken_at"] is not None for row in rows) == breaks
    assert sum(row["total_ns"] for row in rows) == pytest.approx(of_events_ns, rel=0.01)
    assert events == pytest.approx(of_events_ns, rel=0.001)


def test_logs_of_older_torch_are_read(tmp_path):
    """Without numbers of the compilation and times in us among the metrics, as torch 2.4 writes them, and with those of
    the backward pass apart."""
    head = "V0601 10:00:00.{:06d} 4711 torch/_dynamo/x.py:1] "
    forward = {"co_name": "f", "co_filename": "/a/f.py", "co_firstlineno": 3, "start_time": 1717236000.5}
    forward.update(entire_frame_compile_time_s=2.0, backend_compile_time_s=1.5, inductor_compile_time_s=1.0)
    forward.update(code_gen_time_s=0.25, fail_type=None, restart_reasons=[])
    ids = {"frame_id": 2, "frame_compile_id": 1, "attempt": 0, "rank": 3}
    lines = [
        {"artifact": {"name": "recompile_reasons", "encoding": "json"}, **ids, "has_payload": "x"},
        "\ttensor 'L['x']' size mismatch at index 0. expected 2, actual 3",
        {"compilation_metrics": forward, **ids},
        {"bwd_compilation_metrics": {"inductor_compile_time_s": 0.5, "code_gen_time_s": 0.125}, **ids},
    ]
    log = tmp_path / "dedicated_log_torch_trace_rank_3_abc.log"
    texts = [line if isinstance(line, str) else head.format(n) + json.dumps(line) for n, line in enumerate(lines)]
    log.write_text("\n".join(texts) + "\n")
    for path in (log, tmp_path):
        with tg.open(path) as trace:
            f, backward = trace.ask("compiles")
    assert (f["rank"], f["id"], f["kind"], f["place"]) == (3, "2/1", "again", "f.py(3)")
    assert f["guard"] == "tensor 'L['x']' size mismatch at index 0. expected 2, actual 3"
    phases = [f[name] / 1e6 for name in ("dynamo_ns", "backend_ns", "inductor_ns", "codegen_ns")]
    assert phases == [500, 500, 750, 250] and f["start_ns"] == 1717236000_500_000_000
    assert (backward["kind"], backward["total_ns"], backward["codegen_ns"]) == ("backward", 5e8, 1.25e8)


# ---- tachograph run

RUN = """
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(30, 30)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.compile(backend="eager", dynamic=False)
def loss_of(x, name):
    return model(x).square().mean() * len(name)


x = torch.randn(16, 30)
for step in range(170):
    optimizer.zero_grad()
    loss_of(x, "n" * (1 + (step >= 25) + (step >= 160))).backward()
    optimizer.step()
"""


def test_a_run_has_what_was_compiled_before_and_behind_its_window(tmp_path):
    (tmp_path / "program.py").write_text(RUN)
    done = subprocess.run(
        [os.environ.get("TACHOGRAPH", "tachograph"), "run", "-o", "out", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TACHOGRAPH_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        rows = list(trace.ask("compiles"))
        steps = list(trace.ask("steps"))
    assert [row["guard"] for row in rows] == [None, "name == 'n'", "name == 'nn'"]
    assert all(row["total_ns"] > 0 and row["function"] == "loss_of" for row in rows)
    begins, ends = steps[0]["start_ns"], steps[-1]["start_ns"]
    assert rows[0]["start_ns"] < begins and rows[2]["start_ns"] > ends
