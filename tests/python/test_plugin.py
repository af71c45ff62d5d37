"""Devices, totals, classes, the largest entries, modules and memory by operator: against the slow reference on random
traces, what must not change, and what must change how."""

import collections
import copy
import json

import pytest
import reference_plugin as reference
import traces
from hypothesis import given, settings, strategies as st
from test_property import CONTENT, SETTINGS, Written, answers, assert_same, check_rows

FEW = settings(SETTINGS, max_examples=settings.default.max_examples)


def has_kernels(rank):
    return any(e.cat == "kernel" for e in rank.events)


def has_work(rank):
    return any(e.cat in reference.DEVICE for e in rank.events)


def check_device_metrics(rank, ask):
    want = reference.device_metrics(rank.events) if has_kernels(rank) else None
    if want:
        check_rows("device_metrics", want, ask("device_metrics"), lambda r: r["device"])


def check_device_curve(rank, ask):
    if not has_kernels(rank) or not ask("device_metrics"):
        return
    span = max(e.end for e in reference.slices(rank.events)) - min(e.ts for e in reference.slices(rank.events))
    width = max(1000, span // 7 // 1000 * 1000)
    check_rows(
        "device_metrics",
        reference.device_curve(rank.events, width),
        ask("device_metrics", by="time", bucket_us=width / 1000),
        lambda r: (r["device"], r["start_ns"]),
    )


def check_totals(rank, ask):
    if not any(e.cat in {*reference.DEVICE, "cpu_op", "cuda_runtime", "cuda_driver"} for e in rank.events):
        assert ask("totals") == []  # refused: nothing was recorded that it is about
        return
    check_rows("totals", {(): reference.totals(rank.events)}, ask("totals"), lambda r: ())
    [row] = ask("totals")
    assert row["cpu_ns"] <= row["thread_cpu_ns"] <= row["nested_cpu_ns"] and row["cpu_ns"] <= row["wall_ns"]


def check_top(rank, ask):
    for side, there in (("device", has_work(rank)), ("cpu", True)):
        if there:
            rows = ask("top", side=side)
            check_rows("top", reference.top(rank.events, side == "device"), rows, lambda r: (r["name"], r["kind"]))
            assert [r["total_ns"] for r in rows] == sorted((r["total_ns"] for r in rows), reverse=True)


def check_op_classes(rank, ask):
    rows, work = ask("op_classes"), [e for e in rank.events if e.cat in reference.DEVICE]
    assert len(rows) == (
        8 if any(e.cat in {*reference.DEVICE, "cpu_op", "cuda_runtime", "cuda_driver"} for e in rank.events) else 0
    )
    known = [r["fraction"] for r in rows if r["fraction"] is not None]
    assert not known or sum(known) == pytest.approx(1)
    assert sum(r["device_ns"] for r in rows) == sum(e.dur for e in work)
    whole = reference.totals(rank.events)
    assert sum(r["self_cpu_ns"] for r in rows) == whole["self_cpu_ns"] + whole["runtime_ns"]
    assert sum(r["calls"] for r in rows) == whole["ops"]


def check_memory_ops(rank, ask):
    rows = ask("memory_ops") if any(e.name == "[memory]" for e in rank.events) else []
    check_rows("memory_ops", reference.memory_ops(rank.events), rows, lambda r: (r["device"], r["op"]))


def check_modules(rank, ask):
    want = reference.modules(rank.events)
    if not any(want):
        return
    got, path = {}, []
    for r in ask("modules"):
        if r["depth"] is None:
            place = ()
        else:
            path[r["depth"] :] = [r["name"]]
            place = tuple(path)
        assert place not in got
        got[place] = {
            **r,
            "recomputed": r["recomputed"] or 0,
            "calls": r["calls"] or 0,
            "python_ns": r["python_ns"] or 0,
        }
    sides = {
        "cpu_ns": "self_cpu_ns",
        "device_ns": "self_device_ns",
        "backward_cpu_ns": "backward_self_cpu_ns",
        "backward_device_ns": "backward_self_device_ns",
    }
    for place, row in want.items():
        inside = [r for p, r in want.items() if p[: len(place)] == place and (place or not p)]
        row.update({total: sum(r[own] for r in inside) for total, own in sides.items()})
    work_in_frames = [e for e in rank.events if e.cat in reference.DEVICE]
    columns = {c for row in want.values() for c in row} - (
        {"device_ns", "self_device_ns", "backward_device_ns", "backward_self_device_ns"} if work_in_frames else set()
    )
    for place, row in want.items():
        if any(row.values()):
            assert {c: row[c] for c in columns} == {c: got[place][c] for c in columns}, place
    assert sum(r["self_device_ns"] + r["backward_self_device_ns"] for r in got.values()) == sum(
        e.dur for e in work_in_frames
    )


CHECKS = {
    c.__name__[6:]: c
    for c in (
        check_device_metrics,
        check_device_curve,
        check_totals,
        check_top,
        check_op_classes,
        check_memory_ops,
        check_modules,
    )
}


@pytest.mark.parametrize("question", CHECKS)
@FEW
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_question(engine, question, content, spelling):
    with Written(engine, traces.build(**content), spelling) as ranks:
        for rank, ask in ranks:
            CHECKS[question](rank, ask)


QUESTIONS = (
    ("device_metrics", {}),
    ("device_metrics", {"by": "time"}),
    ("totals", {}),
    ("op_classes", {}),
    ("top", {}),
    ("modules", {"by": "class"}),
    ("memory_ops", {}),
)


@FEW
@given(content=CONTENT, shift=st.integers(-(10**12), 10**15))
def test_shift_moves_times_alone(engine, content, shift):
    ranks = traces.build(**content)
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, ranks, 1, plain=True, shift_ns=shift) as b:
        moved = [
            (q, [{k: v + shift if k == "start_ns" else v for k, v in r.items()} for r in rows])
            for q, rows in answers(a, questions=QUESTIONS)
        ]
        assert_same(moved, answers(b, questions=QUESTIONS))


@FEW
@given(content=CONTENT, seed=st.integers(0, 2**32))
def test_spelling_and_stream_names_change_nothing(engine, content, seed):
    ranks = traces.build(**content)
    renamed = copy.deepcopy(ranks)
    for rank in renamed:
        for e in rank.events:
            if e.cat in reference.DEVICE:
                e.tid = e.args["stream"] = e.tid + 1000
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, renamed, seed) as b:
        assert_same(answers(a, questions=QUESTIONS), answers(b, questions=QUESTIONS))


@FEW
@given(content=CONTENT)
def test_twice_as_slow_doubles_times_alone(engine, content):
    ranks = traces.build(**content)
    questions = [(q, args) for q, args in QUESTIONS if args != {"by": "time"}]
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, traces.slowed(ranks), 1, plain=True) as b:
        doubled = [
            (q, [{k: 2 * v if k.endswith(("_ns", "_ms")) and v is not None else v for k, v in r.items()} for r in rows])
            for q, rows in answers(a, questions=questions)
        ]
        assert_same(doubled, answers(b, questions=questions))


# ---- classes of operators ----------------------------------------------------------------------------------


CLASSES = {
    "conv": [
        "aten::convolution",
        "aten::cudnn_convolution",
        "ConvolutionBackward0",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        "aten::mkldnn_convolution",
        "aten::convolution_backward",
    ],
    "norm": [
        "aten::batch_norm",
        "aten::native_layer_norm",
        "NativeBatchNormBackward0",
        "aten::cudnn_batch_norm_backward",
        "aten::_fused_rms_norm",
    ],
    "gemm": ["aten::mm", "aten::addmm", "aten::linear", "AddmmBackward0", "aten::_scaled_mm", "aten::lstm"],
    "attention": [
        "aten::scaled_dot_product_attention",
        "aten::_flash_attention_forward",
        "ScaledDotProductEfficientAttentionBackward0",
    ],
    "elementwise": [
        "aten::add_",
        "aten::mul",
        "ReluBackward0",
        "aten::gelu",
        "aten::_foreach_add_",
        "aten::_fused_adamw_",
    ],
    "copy": ["aten::copy_", "aten::_to_copy", "aten::cat", "aten::zero_", "aten::contiguous"],
    "comm": [
        "nccl:all_reduce",
        "gloo:broadcast",
        "c10d::allreduce_",
        "record_param_comms",
        "_c10d_functional::all_reduce",
    ],
    "other": [
        "aten::empty",
        "aten::sum",
        "aten::_softmax",
        "aten::view",
        "aten::resolve_conj",
        "aten::embedding",
        "aten::nll_loss_forward",
    ],
}


def write(path, events):
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def op(name, ts, dur, tid=1, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def test_classes_by_name(engine, tmp_path):
    events = [op(name, 100 * k, 10) for k, name in enumerate(name for names in CLASSES.values() for name in names)]
    rows = engine.ask(write(tmp_path / "t.json", events), "op_classes")
    assert {r["class"]: r["calls"] for r in rows} == {name: len(ops) for name, ops in CLASSES.items()}


def test_classes_by_place(engine, tmp_path):
    """A convolution claims the copy and the product inside it; what has no class counts for what it runs in."""
    events = [
        op("aten::conv2d", 0, 100),
        op("aten::copy_", 10, 20),
        op("aten::mm", 40, 30),
        op("aten::linear", 200, 50),
        op("aten::t", 210, 10),
        op("aten::copy_", 230, 10),
        op("aten::sum", 300, 10),
    ]
    rows = {r["class"]: r["self_cpu_ns"] for r in engine.ask(write(tmp_path / "t.json", events), "op_classes")}
    assert {k: v for k, v in rows.items() if v} == {"conv": 100_000, "gemm": 40_000, "copy": 10_000, "other": 10_000}


# ---- modules that only operators name ----------------------------------------------------------------------


def test_modules_of_hierarchy_texts(engine, tmp_path):
    """As our recorder writes them, and as TorchScript does."""
    events = [
        op("aten::linear", 0, 50, **{"Module Hierarchy": "Net_0 / Linear_0"}),
        op("aten::addmm", 10, 20, **{"Module Hierarchy": "Net_0 / Linear_0"}),
        op("aten::relu", 60, 10, **{"Module Hierarchy": "Net_0"}),
        op("aten::mul", 80, 5, **{"Module Hierarchy": "TOP(Net)::forward.conv1(Conv2d)::forward"}),
        op("aten::div", 90, 2, **{"Module Hierarchy": "my.nets(Net)::forward"}),
    ]  # the dots of a name end nothing before its colons
    rows = engine.ask(write(tmp_path / "t.json", events), "modules")
    assert [(r["name"], r["depth"], r["calls"], r["ops"], r["cpu_ns"], r["self_cpu_ns"]) for r in rows] == [
        ("Net_0", 0, None, 1, 60_000, 10_000),
        ("Linear_0", 1, None, 1, 50_000, 50_000),
        ("TOP(Net)::forward", 0, None, 0, 5000, 0),
        ("conv1(Conv2d)::forward", 1, None, 1, 5000, 5000),
        ("my.nets(Net)::forward", 0, None, 1, 2000, 2000),
        ("(outside of modules)", None, None, 0, 0, 0),
    ]


def test_script_modules_lie_inside_what_python_called(engine, tmp_path):
    inner = "TOP(Net)::forward.conv1(Conv2d)::forward."
    events = [
        op("nn.Module: Script_0", 0, 100, cat="python_function", **{"Python module id": 0}),
        op("forward", 5, 90, **{"Module Hierarchy": "TOP(Net)::forward."}),
        op("aten::conv2d", 10, 50, **{"Module Hierarchy": inner}),
        op("aten::convolution", 15, 40, **{"Module Hierarchy": inner}),
        op("aten::relu", 65, 20, **{"Module Hierarchy": "TOP(Net)::forward."}),
    ]
    rows = engine.ask(write(tmp_path / "t.json", events), "modules")
    assert [(r["name"], r["depth"], r["calls"], r["cpu_ns"], r["self_cpu_ns"]) for r in rows] == [
        ("Script_0", 0, 1, 100_000, 10_000),
        ("TOP(Net)::forward", 1, None, 90_000, 40_000),
        ("conv1(Conv2d)::forward", 2, None, 50_000, 50_000),
        ("(outside of modules)", None, None, 0, 0),
    ]


def test_module_and_operator_of_one_extent(engine, tmp_path):
    """Where frames are derived, a call begins and ends with its operators, and stands behind them in the file."""
    events = [
        op("aten::linear", 0, 50),
        op("aten::addmm", 10, 20),
        op("nn.Module: Net_0", 0, 50, cat="python_function", **{"Python module id": 0}),
        op("nn.Module: Linear_0", 0, 50, cat="python_function", **{"Python module id": 1}),
    ]
    rows = engine.ask(write(tmp_path / "t.json", events), "modules")
    assert [(r["name"], r["calls"], r["ops"], r["self_cpu_ns"], r["python_ns"]) for r in rows][:2] == [
        ("Net_0", 1, 0, 0, 0),
        ("Linear_0", 1, 1, 50_000, 0),
    ]


def test_forward_computed_again(engine, tmp_path):
    """Checkpointing: inside the backward of an operator of Act_0 the module around both runs again; it keeps its
    place."""

    def frame(name, ts, dur, tid):
        return op("nn.Module: " + name, ts, dur, tid, "python_function", **{"Python module id": 0})

    events = [
        frame("Net_0", 0, 100, 1),
        frame("Block_0", 10, 80, 1),
        frame("Act_0", 20, 40, 1),
        op("aten::relu", 30, 10, **{"Sequence number": 7}),
        op("autograd::engine::evaluate_function: ReluBackward0", 200, 100, 2),
        op("ReluBackward0", 210, 80, 2, **{"Sequence number": 7, "Fwd thread id": 1}),
        frame("Block_0", 220, 60, 2),
        frame("Act_0", 230, 30, 2),
        op("aten::relu", 240, 10, 2),
    ]
    events += [
        {"ph": ph, "id": 1, "pid": 1, "tid": tid, "ts": ts, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
        for ph, tid, ts in (("s", 1, 30), ("f", 2, 210))
    ]
    rows = {r["name"]: r for r in engine.ask(write(tmp_path / "t.json", events), "modules")}
    assert list(rows) == ["Net_0", "Block_0", "Act_0", "(outside of modules)"]
    assert [(r["calls"], r["recomputed"], r["cpu_ns"], r["backward_self_cpu_ns"]) for r in rows.values()][:3] == [
        (1, None, 100_000, 0),
        (1, 1, 80_000, 30_000),
        (1, 1, 40_000, 70_000),
    ]


# ---- the command, and what is not there --------------------------------------------------------------------


def test_top_on_the_command_line(tachograph, tmp_path):
    events = [op("aten::mm", 10 * k, 4) for k in range(3)] + [op("aten::add", 100, 8)]
    path = write(tmp_path / "t.json", events)
    table = json.loads(tachograph("top", path, "--cpu", "--json").stdout)
    at = [c["name"] for c in table["columns"]].index
    assert [(r[at("name")], r[at("total_ms")], r[at("pct")]) for r in table["rows"]] == [
        ("aten::mm", 0.012, 60),
        ("aten::add", 0.008, 40),
    ]
    text = tachograph("top", path, "-n", 1).stdout
    assert "60.00 %" in text and "aten::add" not in text
    refused = tachograph("top", "--device", path)
    assert refused.returncode == 3 and "no device work" in refused.stderr
    assert tachograph("top", "--device", "--cpu", path).returncode == 2
    assert tachograph("top", path, "-n", "few").returncode == 2


@pytest.mark.parametrize(
    "question, option",
    [
        ("device_metrics", "ProfilerActivity.CUDA"),
        ("modules", "with_stack=True"),
        ("memory_ops", "profile_memory=True"),
    ],
)
def test_missing_data_is_said(tachograph, tmp_path, question, option):
    done = tachograph("ask", write(tmp_path / "t.json", [op("aten::mm", 0, 5)]), question)
    assert done.returncode == 3 and option in done.stderr


def test_tree_is_shown_by_indentation(tachograph, tmp_path):
    events = [
        op("nn.Module: Net_0", 0, 100, cat="python_function", **{"Python module id": 0}),
        op("nn.Module: Linear_0", 10, 50, cat="python_function", **{"Python module id": 1}),
        op("aten::mm", 20, 10),
    ]
    path = write(tmp_path / "t.json", events)
    lines = tachograph("ask", path, "modules").stdout.splitlines()
    at = next(line.index("Net_0") for line in lines if "Net_0" in line)
    assert next(line.index("Linear_0") for line in lines if "Linear_0" in line) == at + 2
    sorted_lines = tachograph("ask", path, "modules", "--sort", "self_cpu_ns").stdout.splitlines()
    assert next(line.index("Linear_0") for line in sorted_lines if "Linear_0" in line) == at


# ---- from Python -------------------------------------------------------------------------------------------


def test_totals_and_classes_of_a_recording():
    torch = pytest.importorskip("torch")
    tg = pytest.importorskip("tachograph")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 4),
    )
    x = torch.randn(4, 3, 8, 8)
    model(x).sum().backward()
    with tg.profile() as prof:
        model(x).sum().backward()
    totals, classes = prof.totals(), prof.by_class()
    rows = prof.trace.ask("ops").to_dicts()
    assert 0 < totals.cpu_ms <= totals.wall_ms
    assert totals.thread_cpu_ms == pytest.approx(sum(r["self_cpu_ns"] for r in rows) / 1e6)
    assert totals.sum_ms == pytest.approx(sum(r["cpu_ns"] for r in rows) / 1e6) and totals.sum_ms > totals.thread_cpu_ms
    assert sorted(classes) == sorted(CLASSES) and sum(classes.values()) == pytest.approx(1)
    assert min(classes[name] for name in ("conv", "norm", "gemm", "elementwise")) > 0
    assert prof.by_class(device=False) == pytest.approx(classes)


@pytest.mark.frames
def test_module_calls_of_a_recording():
    """A module's call ends where other operators run, stacks or not."""
    torch = pytest.importorskip("torch")
    tg = pytest.importorskip("tachograph")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4)))
    calls = collections.Counter()
    with tg.profile(with_modules=True) as prof:
        for _ in range(3):
            model(torch.randn(2, 4)).sum().backward()
    for row in prof.trace.ask("modules").to_dicts():
        calls[row["name"], row["depth"]] = row["calls"]
    assert {key: n for key, n in calls.items() if key[1] is not None} == {
        ("Sequential_0", 0): 3,
        ("Linear_0", 1): 3,
        ("Sequential_1", 1): 3,
        ("Linear_1", 2): 3,
    }
