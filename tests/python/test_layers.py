"""The question layers: boundaries of layers without a look at the host, against calls of modules in public traces and
against traces whose layers were put there."""

import gzip
import json
import os
import pathlib
import random
import re
import statistics

import pytest
import tachograph as tg

ROOT = pathlib.Path(__file__).parent.parent.parent
TRACES = pathlib.Path(os.environ.get("TG_TRACES", ROOT.parent / "shared/traces"))
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
WORK = DEVICE - {"gpu_user_annotation"}


def layers_of(tmp_path, events):
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"traceEvents": events}))
    with tg.open(path) as trace:
        table = trace.ask("layers")
        return list(table), table.notes


# ---- public traces with calls of modules, without their host


def read(name):
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    text = gzip.open(path, "rt").read()
    return [e for e in json.loads(text, strict=False)["traceEvents"] if e.get("ph") == "X"]


def modules_boundaries(events, cls):
    """Starts of the first device work that each call of the module launched, in ns from the first device work."""
    work = sorted((e for e in events if e["cat"] in WORK), key=lambda e: e["ts"])
    calls = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")}
    modules = [e for e in events if re.fullmatch(rf"nn\.Module: {cls}_\d+", e["name"])]
    starts = []
    for module in sorted(modules, key=lambda e: e["ts"]):
        inside = (e for e in work if 0 <= calls.get(e["args"]["correlation"], -1) - module["ts"] < module["dur"])
        starts.append(round((min(e["ts"] for e in inside) - work[0]["ts"]) * 1000))
    return starts


@pytest.mark.parametrize(
    "name, cls, kernels",
    [
        ("diff_bert_h100_mi300/h100.json.gz", "BertLayer", 12),
        ("diff_bert_h100_mi300/mi300.json.gz", "BertLayer", 12),
        ("infer_h100_qwen/trace.json.gz", "Qwen2DecoderLayer", 49),
        ("infer_h100_timesformer_stack/trace.json.gz", "TimesformerLayer", 43),
    ],
)
def test_boundaries_are_those_of_the_modules(tmp_path, name, cls, kernels):
    events = read(name)
    truth = modules_boundaries(events, cls)
    rows, _ = layers_of(tmp_path, [e for e in events if e["cat"] in DEVICE])
    first = min(e["ts"] for e in events if e["cat"] in WORK)
    with tg.open(tmp_path / "device.json") as trace:
        base = min(row["start_ns"] for row in trace.ask("events") if row["category"] in WORK)
    found = [row["start_ns"] - base for row in rows]
    assert first and len(truth) >= 4 and [row["kernels"] for row in rows] == [kernels] * len(truth)
    assert all(abs(a - b) <= 1 for a, b in zip(found, truth, strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "train_mi300_resnet/rank-0.json.gz",
        "train_v100_ns/rank-0.pt.trace.json.gz",
        "train_v100_nccl/rank-1.json.gz",
        "train_old2021_w0/worker0.1623143089861.pt.trace.json.gz",
    ],
)
def test_nothing_is_claimed_on_convolutional_networks(name):
    if not (TRACES / name).exists():
        pytest.skip(f"{name} is not here")
    with tg.open(TRACES / name) as trace:
        table = trace.ask("layers")
        assert not list(table), table.notes


# ---- layers that were put there


class Stream:
    """Kernels one behind the other, in steps that an annotation of the device marks."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.events, self.ts, self.boundaries = [], 100.0, []

    def run(self, *names):
        for name in names:
            dur = {"gemm": 20, "flash_fwd": 30}.get(name.split("_")[0], 5) + self.random.randrange(3)
            args = {"device": 0, "stream": 7, "correlation": len(self.events) + 1}
            event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": self.ts, "dur": dur}
            self.events.append({**event, "args": args})
            self.ts += dur + self.random.randrange(1, 4)

    def layer(self, *names):
        self.boundaries.append(round(self.ts * 1000))
        self.run(*names)

    def step(self, number, body):
        start = self.ts
        body()
        mark = {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{number}", "pid": 0, "tid": 7}
        self.events.append({**mark, "ts": start, "dur": self.ts - start, "args": {"External id": number}})
        self.ts += 50


FORWARD = ("norm", "gemm_qkv", "rope", "flash_fwd", "gemm_out", "add", "norm", "gemm_up", "gelu", "gemm_down", "add")
BACKWARD = tuple(f"{name}_backward" for name in reversed(FORWARD) for _ in range(2))


def training(s):
    def step():
        s.run("embedding", "add")
        for _ in range(6):
            s.layer(*FORWARD)
        s.run("norm", "gemm_head", "log_softmax", "nll_loss", "nll_loss_backward", "gemm_head_backward")
        for _ in range(6):
            s.layer(*BACKWARD)
        s.run("embedding_backward", *["multi_tensor_apply_adam"] * 8)

    for number in range(3):
        s.step(number, step)


def experts(s):
    """In each layer the kernels of eight experts come one after the other."""

    def step():
        s.run("embedding")
        for _ in range(5):
            s.layer(*FORWARD[:6], "topk", *("gather", "gemm_up", "silu", "gemm_down", "scatter") * 8, "add")
        s.run("norm", "gemm_head")

    s.step(0, step)


def tokens(s):
    """A step of several tokens."""

    def step():
        for _ in range(4):
            s.run("embedding")
            for _ in range(12):
                s.layer("norm", "gemm_qkv", "rope", "kv_write", "decode_attention", "gemm_out", "norm", "gemm_mlp")
            s.run("final_norm", "gemm_head", "argmax", "index_select", "where", "cumsum", "any", "bitwise_or")

    s.step(7, step)


def encoder_decoder(s):
    def step():
        s.run("embedding", "add")
        for _ in range(6):
            s.layer(*FORWARD)
        s.run("final_norm", "embedding", "mask", "add")
        for _ in range(4):
            s.layer(*FORWARD[:6], "cross_norm", "gemm_q", "gemm_kv", "flash_fwd_cross", "gemm_out", *FORWARD[5:])
        s.run("norm_last", "gemm_head", "softmax")

    s.step(0, step)


@pytest.mark.parametrize("make", [training, experts, tokens, encoder_decoder])
def test_layers_that_were_put_there_are_found(tmp_path, make):
    stream = Stream(make.__name__)
    make(stream)
    rows, notes = layers_of(tmp_path, stream.events)
    assert [row["start_ns"] for row in rows] == stream.boundaries, notes
    assert not any(row["differs"] for row in rows)
    for run in {(row["step"], row["run"]) for row in rows}:
        work = [row["work_ns"] for row in rows if (row["step"], row["run"]) == run]
        usual = int(statistics.median(work))
        for row in rows:
            if (row["step"], row["run"]) == run:
                assert row["of_usual"] == pytest.approx(row["work_ns"] / usual, rel=1e-4)


def test_the_layer_that_differs_is_named_with_its_kernel(tmp_path):
    stream = Stream(3)
    encoder_decoder(stream)
    slow = next(e for e in stream.events if e["ts"] * 1000 > stream.boundaries[2] and e["name"] == "flash_fwd")
    later = [e for e in stream.events if e["ts"] > slow["ts"]]
    slow["dur"] += 100
    for event in later:
        event["ts"] += 100
    stream.events[-1]["dur"] += 100
    rows, _ = layers_of(tmp_path, stream.events)
    assert [(row["run"], row["layer"], row["by"]) for row in rows if row["differs"]] == [(1, 2, "flash_fwd")]


def resnet_batches(s):
    """Small batches in one step: what repeats is a batch, with its loss."""

    def step():
        for _ in range(4):
            for stage in range(4):
                for block in range((3, 4, 6, 3)[stage]):
                    s.run(*(f"conv_{stage}_{block % 2}_{n}" for n in range(3)), "batch_norm", "relu")
            s.run("gemm_fc", "log_softmax", "nll_loss")

    s.step(0, step)


def random_order(s):
    def step():
        for _ in range(600):
            s.run(s.random.choice(FORWARD))

    s.step(0, step)


def optimizer_loop(s):
    """For each parameter the same small kernels, which are most of the step."""

    def step():
        s.run(*FORWARD, *BACKWARD)
        for _ in range(100):
            s.run("lerp", "mul", "addcmul", "sqrt", "div", "add", "addcdiv")

    s.step(0, step)


@pytest.mark.parametrize("make", [resnet_batches, random_order, optimizer_loop])
def test_nothing_is_claimed_where_no_layers_are(tmp_path, make):
    stream = Stream(1)
    make(stream)
    rows, notes = layers_of(tmp_path, stream.events)
    assert not rows and any("repeat itself" in note for note in notes)


def test_steps_that_repeat_are_no_layers(tmp_path):
    """Without the marks of steps nothing says what repeats."""
    stream = Stream(2)
    training(stream)
    rows, notes = layers_of(tmp_path, [e for e in stream.events if e["cat"] == "kernel"])
    assert not rows and any("no steps are known" in note for note in notes)
