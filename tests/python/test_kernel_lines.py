"""Lines and modules of the program behind compiled kernels: what the recording says against what Inductor itself wrote
down, and against the graph that dynamo gives a backend."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
import tachograph as tg
from tachograph._collect.kernel_modules import of_graph

PROGRAMS = """
import torch
from torch import nn


def elementwise(x):
    y = x * 2  # elementwise
    y = torch.relu(y)  # elementwise
    return y + 1  # elementwise


def reduced(x):
    y = torch.softmax(x, -1)  # softmax
    return y.sum()  # sum


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = self.norm(x)
        h = torch.nn.functional.gelu(self.up(h))
        return x + self.down(h)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        x = self.norm(self.conv(x))
        return torch.relu(x).mean((2, 3))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)

    def forward(self, tokens):
        q = self.embedding(tokens) * 3
        weights = (q @ q.transpose(-1, -2)).softmax(-1)
        return (weights @ q).tanh()


def run_elementwise(f=torch.compile(elementwise)):
    f(torch.ones(64))


def run_reduced(f=torch.compile(reduced)):
    f(torch.ones(8, 16))


def run_block(f=torch.compile(Block())):
    f(torch.ones(4, 16)).sum().backward()


def run_images(f=torch.compile(Images().eval())):
    f(torch.ones(2, 3, 8, 8)).sum().backward()


def run_attention(f=torch.compile(Attention())):
    f(torch.arange(12).view(2, 6)).sum().backward()


PROGRAMS = [run_elementwise, run_reduced, run_block, run_images, run_attention]
"""
RECORD = """
import json

from torch._dynamo import utils
from torch._inductor import config
from tachograph._collect.native import NativeRecording
import tachograph._record

torch.set_num_threads(1)
if hasattr(config, "cpp_cache_precompile_headers"):  # these take 15 s, and change no kernel
    config.cpp_cache_precompile_headers = False
programs = PROGRAMS[:{programs}]
for program in programs:
    program()
with NativeRecording("{name}.tacho", tg._record.LEAN):
    for program in programs:
        program()
texts = [(m.compile_id, text) for m in utils._compilation_metrics for text in m.inductor_provenance or ()]

modules_of_stack = {{}}


# A backend that only reads: of each operator the modules around it, as objects, by evaluating dynamo's names of them
def reader_of(module):
    names = {{id(inner): name for name, inner in getattr(module, "named_modules", list)()}}

    def text(source):
        inner = eval(source, {{"L": {{"self": module}}}})
        name = type(inner).__name__
        return f"{{names[id(inner)]}}({{name}})"

    def read(graph, _):
        for node in graph.graph.nodes:
            if node.op.startswith("call_"):
                path = " / ".join(text(source) for source, _ in node.meta.get("nn_module_stack", {{}}).values())
                modules_of_stack.setdefault(node.stack_trace.strip(), set()).add(path or "(itself)")
        return graph.forward

    return read


torch._dynamo.reset()
for program in programs:
    (compiled,) = program.__defaults__
    plain = getattr(compiled, "_orig_mod", None) or compiled._torchdynamo_orig_callable
    program(torch.compile(plain, backend=reader_of(plain)))
truth = {{stack: sorted(paths) for stack, paths in modules_of_stack.items()}}
json.dump([texts, truth], open("{name}.json", "w"))
"""
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def record(folder, name, programs, provenance=True):
    (folder / "program.py").write_text(
        "import tachograph as tg\n" + PROGRAMS + RECORD.format(name=name, programs=programs)
    )
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    env.update(TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE="1", TORCHINDUCTOR_COMPILE_THREADS="1")
    env.pop("INDUCTOR_PROVENANCE", None)
    if provenance:
        env["INDUCTOR_PROVENANCE"] = "1"
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts, modules = json.loads((folder / f"{name}.json").read_text())
    with tg.open(folder / f"{name}.tacho") as trace:
        table = trace.ask("compiled_kernels")
        return list(table), texts, table.notes, modules


def innermost_own(stack):
    own = [
        (file, line, f)
        for file, line, f in FRAME.findall(stack.partition("Gradient addition")[0])
        if "/torch/" not in file
    ]
    return f"{os.path.basename(own[-1][0])}({own[-1][1]}): {own[-1][2]}" if own else None


def by_kernel(texts, of_stack):
    """{(region, kernel): what stands behind its stacks}. The text of a backward pass has those of earlier ones in front
    of its own."""
    found = {}
    for region, text in texts:
        graph = json.loads(text)
        inside = [json.loads(other) for _, other in texts if other != text and text.startswith(other[:-1])]
        own = dict(list(graph.items())[max(map(len, inside), default=0) :])
        for name, stacks in own.items():
            for stack in stacks:
                found.setdefault((region, name.rpartition(":")[0]), set()).update(of_stack(stack))
    return found


def inductors_lines(texts):
    return by_kernel(texts, lambda stack: filter(None, [innermost_own(stack)]))


def assert_same_modules(rows, texts, modules):
    truth = by_kernel(texts, lambda stack: modules.get(stack.partition("Gradient addition")[0].strip(), []))
    for row in rows:
        named = truth.get(
            (row["region"], re.sub(r"^graph_\d+_", "", row["kernel"])), set()
        )  # none: Inductor names no operator
        assert set(row["modules"].split("; ") if row["modules"] else ()) == named, row


def assert_same(rows, texts):
    truth = inductors_lines(texts)
    assert rows
    for row in rows:
        kernel = re.sub(r"^graph_\d+_", "", row["kernel"])
        named = truth.get((row["region"], kernel), set())
        assert set(row["lines"].split("; ") if row["lines"] else ()) == named, row
        assert row["places"] == len(named)
    named = {key for key in truth if key[1].startswith("cpp_") and truth[key]}
    assert named == {(row["region"], re.sub(r"^graph_\d+_", "", row["kernel"])) for row in rows if row["lines"]}


@pytest.mark.long
def test_the_line_of_a_kernel_is_inductors(tmp_path):
    rows, texts, notes, _ = record(tmp_path, "one", 1)
    assert_same(rows, texts)
    assert rows[0]["modules"] == "(itself)"  # a function
    marked = [
        i for i, line in enumerate((tmp_path / "program.py").read_text().splitlines(), 1) if "# elementwise" in line
    ]
    assert set(rows[0]["lines"].split("; ")) == {f"program.py({line}): elementwise" for line in marked}
    assert rows[0]["calls"] == 1 and not any("INDUCTOR_PROVENANCE" in note for note in notes)


@pytest.mark.long
def test_five_programs_have_inductors_lines_and_modules_also_with_a_warm_cache(tmp_path):
    cold, cold_texts, _, modules = record(tmp_path, "cold", 5)
    assert_same(cold, cold_texts)
    assert_same_modules(cold, cold_texts, modules)
    warm, warm_texts, _, modules = record(tmp_path, "warm", 5)
    assert_same(warm, warm_texts)
    assert_same_modules(warm, warm_texts, modules)
    columns = ("region", "kernel", "lines", "modules")
    assert {tuple(r[c] for c in columns) for r in warm} == {tuple(r[c] for c in columns) for r in cold}
    assert len(cold) >= 8 and sum("(Linear)" in (r["modules"] or "") for r in cold) >= 2


# ---- worked out by hand

DOCUMENT = {
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "Torch-Compiled Region: 0/0", "pid": 1, "tid": 1, "ts": 0, "dur": 20},
        {"ph": "X", "cat": "cpu_op", "name": "cpp_fused_add_0", "pid": 1, "tid": 1, "ts": 1, "dur": 4},
        {"ph": "X", "cat": "cpu_op", "name": "graph_7_cpp_fused_add_0", "pid": 1, "tid": 1, "ts": 6, "dur": 5},
        {"ph": "X", "cat": "cpu_op", "name": "Torch-Compiled Region: 1/0", "pid": 1, "tid": 1, "ts": 30, "dur": 20},
        {"ph": "X", "cat": "cpu_op", "name": "cpp_fused_add_0", "pid": 1, "tid": 1, "ts": 31, "dur": 3},
        {"ph": "X", "cat": "cpu_op", "name": "cpp_fused_add_0", "pid": 1, "tid": 1, "ts": 60, "dur": 2},
        {"ph": "X", "cat": "cpu_op", "name": "cpp_fused_mul_9", "pid": 1, "tid": 1, "ts": 70, "dur": 1},
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cuLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": 40,
            "dur": 2,
            "args": {"correlation": 5},
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": "triton_poi_fused_0",
            "pid": 0,
            "tid": 7,
            "ts": 50,
            "dur": 9,
            "args": {"correlation": 5, "device": 0, "stream": 7},
        },
    ]
}
STACKS = [
    'File "/home/me/train.py", line 3, in step\n    y = f(x)\n  File "/home/me/model.py", line 8, in forward\n    x + 1',
    'File "/home/me/model.py", line 9, in forward\n  File "/x/site-packages/torch/nn/modules/linear.py", line 1, in forward',
    'File "/home/me/model.py", line 4, in f\nGradient addition node of uses at: File "/home/me/model.py", line 90, in f',
    'File "/x/site-packages/timm/block.py", line 7, in forward\nFile "/x/site-packages/torch/nn/a.py", line 1, in forward',
]
MEMBER = {
    "stacks": STACKS,
    "kernels": {
        "0/0": {"cpp_fused_add_0:1": [0, 1, 0], "cpp_fused_add_0:2": [2]},
        "1/0": {"cpp_fused_add_0:1": [3], "triton_poi_fused_0:4": [STACKS[1], 99, -1, None, {}, "no stack"]},
    },
}


def opened(tmp_path, member):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**DOCUMENT, "compiled.1": member}))
    return tg.open(path)


def test_the_region_decides_between_kernels_of_one_name(tmp_path):
    home = "/home/me/model.py"
    with opened(tmp_path, MEMBER) as trace:
        table = trace.ask("compiled_kernels")
        rows = {(row["region"], row["kernel"]): row for row in table}
    of_0 = f"{home}(8): forward; {home}(9): forward; {home}(4): f"
    of_1 = "/x/site-packages/timm/block.py(7): forward"
    assert {key: row["lines"] for key, row in rows.items()} == {
        ("0/0", "cpp_fused_add_0"): of_0,
        ("0/0", "graph_7_cpp_fused_add_0"): of_0,
        ("1/0", "cpp_fused_add_0"): of_1,
        ("", "cpp_fused_add_0"): f"{of_0}; {of_1}",
        ("", "cpp_fused_mul_9"): None,
        ("1/0", "triton_poi_fused_0"): f"{home}(9): forward",
    }
    assert rows["0/0", "cpp_fused_add_0"]["total_ns"] == 4000 and rows["", "cpp_fused_add_0"]["places"] == 4
    assert any("1 of 6 kernels" in note and "INDUCTOR_PROVENANCE=1" in note for note in table.notes)


@pytest.mark.parametrize(
    "member", [None, [], "x", {"kernels": 3}, {"kernels": {"0/0": {"cpp_fused_add_0": "x"}}}, {"stacks": {"a": 1}}]
)
def test_members_of_another_form_say_nothing(tmp_path, member):
    with opened(tmp_path, member) as trace:
        assert all(row["lines"] is None and row["places"] == 0 for row in trace.ask("compiled_kernels"))


def test_kernels_of_devices_are_grouped_by_their_lines(tmp_path):
    with opened(tmp_path, MEMBER) as trace:
        (row,) = trace.ask("kernels", by="line")
        assert (row["group"], row["total_ns"]) == ("/home/me/model.py(9): forward", 9000)


def test_a_kernel_of_the_host_counts_for_each_of_its_lines(tmp_path):
    frame = {"ph": "X", "cat": "python_function", "name": "train.py(1): main", "pid": 1, "tid": 1, "ts": -5, "dur": 27}
    frame["args"] = {"Python id": 1}
    path = tmp_path / "frames.json"
    events = [frame, *DOCUMENT["traceEvents"][:3]]
    path.write_text(json.dumps({"traceEvents": events, "compiled.1": MEMBER}))
    with tg.open(path) as trace:
        rows = {row["name"]: (row["cpu_ns"], row["self_cpu_ns"]) for row in trace.ask("stacks", by="line")}
    home = "/home/me/model.py"
    assert rows == {
        "train.py(1): main": (27000, 18000),
        f"{home}(8): forward": (9000, 9000),
        f"{home}(9): forward": (9000, 0),
        f"{home}(4): f": (9000, 0),
    }


def test_a_log_of_the_compiler_has_the_lines_without_calls(tmp_path):
    head = "V0601 10:00:00.000001 4711 torch/_inductor/x.py:1] "
    names = {"name": "inductor_provenance_tracking_kernel_stack_traces", "encoding": "json"}
    lines = []
    for region, kernels in (
        ("0/0", {"cpp_fused_a:1": STACKS[:2]}),
        ("2/1", {"cpp_fused_a:1": STACKS[:2], "cpp_b:2": []}),
    ):
        frame, version = map(int, region.split("/"))
        artifact = {"artifact": names, "frame_id": frame, "frame_compile_id": version, "has_payload": "x"}
        lines += [head + json.dumps(artifact), "\t" + json.dumps({**kernels, "extern_kernels.mm:9": STACKS[:1]})]
    metrics = {"compile_id": "0/0", "co_name": "f", "start_time_us": 5, "duration_us": 9}
    lines.append(head + json.dumps({"compilation_metrics": metrics, "frame_id": 0, "frame_compile_id": 0}))
    log = tmp_path / "dedicated_log_torch_trace_rank_0_abc.log"
    log.write_text("\n".join(lines) + "\n")
    with tg.open(log) as trace:
        rows = [(row["region"], row["kernel"], row["calls"], row["lines"]) for row in trace.ask("compiled_kernels")]
    two = "/home/me/model.py(8): forward; /home/me/model.py(9): forward"
    assert rows == [("0/0", "cpp_fused_a", None, two), ("2/1", "cpp_fused_a", None, two)]


# ---- modules, worked out by hand


def test_time_of_compiled_code_goes_to_the_innermost_module_around_all_of_a_kernel(tmp_path):
    """Net_0 of 40 us calls compiled code: a kernel of a and b 4 us, one of a 5 us, and two calls of aten::addmm, the
    first of a with 2 us and the second of b with 3 us; so are the two calls of a kernel, with 1 us and 2 us. In its
    backward pass a kernel of b takes 6 us. Outside, another function's kernel of c.up and c.down runs on a device for
    9 us, one of c.up and of no module for 7 us, and one twice: of c.down for 1 us and of c.up for 2 us."""
    events = [
        slice_of("nn.Module: Net_0", 0, 40, "python_function", **{"Python id": 1, "Python module id": 0}),
        slice_of("Torch-Compiled Region: 0/0", 1, 30),
        slice_of("CompiledFunction", 2, 25, **{"Sequence number": 3, "Fwd thread id": 0}),
        slice_of("cpp_fused_add_0", 3, 4),
        slice_of("cpp_fused_mul_1", 8, 5),
        slice_of("graph_0_cpp_fused_mul_1", 9, 2),
        slice_of("aten::addmm", 14, 2),
        slice_of("aten::addmm", 17, 3),
        slice_of("cpp_fused_exp_2", 21, 1),
        slice_of("cpp_fused_exp_2", 22, 2),
        slice_of("CompiledFunctionBackward", 50, 20, **{"Sequence number": 3, "Fwd thread id": 1}),
        slice_of("cpp_fused_add_0", 52, 6),
        slice_of("Torch-Compiled Region: 1/0", 80, 10),
    ]
    launched = (("triton_poi_fused_0", 9), ("triton_poi_fused_1", 7), ("triton_red_2", 1), ("triton_red_2", 2))
    for n, (name, dur) in enumerate(launched):
        events += [
            slice_of("cuLaunchKernel", 82 + n, 1, "cuda_runtime", correlation=n + 1),
            {**slice_of(name, 90 + 10 * n, dur, "kernel", correlation=n + 1, device=0, stream=7), "pid": 0, "tid": 7},
        ]
    member = {
        "paths": [
            "a(Linear)",
            "b(Linear)",
            "c(Block) / up(Linear)",
            "c(Block) / down(Linear)",
            "",
        ],
        "modules": {
            "0/0": {
                "cpp_fused_add_0:1": [0, 1],
                "cpp_fused_mul_1:2": [0],
                "extern_kernels.addmm:3": [0],
                "extern_kernels.addmm:4": [1],
                "cpp_fused_exp_2:5": [0],
                "cpp_fused_exp_2:6": [1],
            },
            "0/0 backward": {"cpp_fused_add_0:1": [1, 99, None]},
            "1/0": {
                "triton_poi_fused_0:1": [2, 3],
                "triton_poi_fused_1:2": [2, 4],
                "triton_red_2:3": [3],
                "triton_red_2:4": [2],
            },
        },
    }
    path = tmp_path / "modules.json"
    path.write_text(json.dumps({"traceEvents": events, "compiled.1": member}))
    with tg.open(path) as trace:
        table = trace.ask("modules")
        figures = ("self_cpu_ns", "backward_self_cpu_ns", "self_device_ns")
        rows = {(r["depth"], r["name"], r["attribute"]): tuple(r[name] // 1000 for name in figures) for r in table}
        kernels = {(r["region"], r["kernel"]): r["modules"] for r in trace.ask("compiled_kernels")}
        groups = {(r["name"], r["group"]): r["total_ns"] // 1000 for r in trace.ask("kernels", by="module")}
    assert rows == {
        (0, "Net_0", None): (40 - 5 - 2 - 3 - 1 - 2, 20 - 6, 0),
        (1, "Linear", "a"): (5 + 2 + 1, 0, 0),
        (1, "Linear", "b"): (3 + 2, 6, 0),
        (0, "Block", "c"): (0, 0, 9),
        (1, "Linear", "down"): (0, 0, 1),
        (1, "Linear", "up"): (0, 0, 2),
        (None, "(outside of modules)", None): (10, 0, 7),
    }
    assert [r["calls"] for r in table if r["calls"] is not None] == [1]  # only Net_0 has frames
    assert kernels == {
        ("0/0", "cpp_fused_add_0"): "a(Linear); b(Linear)",
        ("0/0", "cpp_fused_mul_1"): "a(Linear)",
        ("0/0", "graph_0_cpp_fused_mul_1"): "a(Linear)",
        ("0/0", "cpp_fused_exp_2"): "a(Linear); b(Linear)",
        ("1/0", "triton_poi_fused_0"): "c(Block) / up(Linear); c(Block) / down(Linear)",
        ("1/0", "triton_poi_fused_1"): "c(Block) / up(Linear); (itself)",
        ("1/0", "triton_red_2"): "c(Block) / down(Linear); c(Block) / up(Linear)",
    }
    assert groups == {
        ("triton_poi_fused_0", "c(Block)"): 9,
        ("triton_poi_fused_1", ""): 7,
        ("triton_red_2", "c(Block) / down(Linear)"): 1,
        ("triton_red_2", "c(Block) / up(Linear)"): 2,
    }


class Linear:
    pass


def node(name, stack, *modules, op="call_function"):
    stack_of = {f"key{n}": module for n, module in enumerate(modules)}
    return SimpleNamespace(name=name, op=op, meta={"stack_trace": stack, "nn_module_stack": stack_of})


LOOP, UP = 'File "/a.py", line 3, in forward\n    x = layer(x)', 'File "/a.py", line 9, in forward\n    up(x)'
NODES = [
    node("x", None, op="placeholder"),
    node("first", LOOP + "\n", ("L['self']._modules['layers']._modules['0']", "model.Block")),
    node("second", LOOP, ("L['self'].layers.1", "model.Block")),
    node(
        "up", UP, ("L['self']", "model.Net"), ("L['self'].layers.1", "model.Block"), ("L['self'].layers.1.up", Linear)
    ),
    node("of_global", "elsewhere", ("G['net']", "model.Net"), ("G['net']._orig_mod.head", Linear)),
    node("last", "last", ("L['self'].layers", "Stack"), ("L['self'].layers.1", "Block")),
    node("own", "own"),
    node("embedding", "two", ("L['self'].embedding", "Embedding")),
    node("product", "two"),
]


def test_modules_come_from_operators_by_name_and_else_by_stack():
    """In the loop two layers have one stack, which by itself is that of the two."""
    texts = {"k:1": [LOOP], "k:2": [LOOP, UP], "k:3": [LOOP], "k:4": ["elsewhere", "own"], "k:5": ["no stack"]}
    names = {"cppCodeToPost": {"k:1": ["a"], "k:2": ["a", "b", "c"], "k:4": ["d"], "k:5": ["e"]}}
    names["postToPre"] = {"a": ["second"], "b": ["up", "x"], "c": ["second"], "d": ["of_global", "own", "gone"]}
    graph = SimpleNamespace(inductor_provenance_mapping_str=json.dumps(names), fx_kwargs={"is_backward": False})
    modules = of_graph(graph, json.dumps(texts), NODES)
    assert not modules.is_backward and modules.of == {
        "k:1": ("layers.1(Block)",),
        "k:2": ("layers.1(Block)", "layers.1(Block) / up(Linear)"),
        "k:3": ("",),
        "k:4": ("net(Net) / head(Linear)", ""),
        "k:5": (),
    }
    texts = {"k:1": [UP, "last\nGradient addition node of uses at: own"], "k:2": ["two"]}
    graph = SimpleNamespace(inductor_provenance_mapping_str='{"version": 2.0}', fx_kwargs={"is_backward": True})
    modules = of_graph(graph, json.dumps(texts), NODES)
    assert modules == (
        True,
        {"k:1": ("layers.1(Block) / up(Linear)", "layers(Stack) / 1(Block)"), "k:2": ("embedding(Embedding)", "")},
    )


# ---- compilations and what ran of them


def slice_of(name, ts, dur, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def test_compilations_have_their_calls_and_the_steps_that_win_them_back(tmp_path):
    """Region 1/0 runs inside 0/0; the backward pass of 0/0 is linked by its sequence number. In the first call of 0/0
    something is compiled for 4 us."""
    events = [slice_of(f"ProfilerStep#{n}", 100 * n, 100, "user_annotation") for n in range(4)]
    for n in range(4):
        events += [
            slice_of("Torch-Compiled Region: 0/0", 100 * n + 1, 30),
            slice_of("CompiledFunction", 100 * n + 2, 5, **{"Sequence number": n, "Fwd thread id": 0}),
            slice_of("Torch-Compiled Region: 1/0", 100 * n + 10, 12),
            slice_of("cudaLaunchKernel", 100 * n + 12, 2, "cuda_runtime", correlation=n + 1),
            {**slice_of("k", 100 * n + 40, 24, "kernel", correlation=n + 1, device=0, stream=7), "pid": 0, "tid": 7},
            slice_of("CompiledFunctionBackward", 100 * n + 70, 20, **{"Sequence number": n, "Fwd thread id": 1}),
        ]
    times = {"co_name": "f", "co_filename": "/a/f.py", "co_firstlineno": 3, "start_time_us": 1}
    events += [slice_of("_compile.compile_inner (dynamo_timed)", 24, 4)]
    events += [slice_of("entire_frame_compile (dynamo_timed)", 25, 2)]
    compiled = [
        {**times, "compile_id": "0/0", "duration_us": 180, "is_forward": True},
        {**times, "compile_id": "0/0", "duration_us": 100, "is_forward": False},
        {**times, "co_firstlineno": 9, "compile_id": "1/0", "duration_us": 48, "is_forward": True},
        {**times, "co_firstlineno": 20, "compile_id": "2/0", "duration_us": 48, "is_forward": True},
    ]
    path = tmp_path / "compiles.json"
    path.write_text(json.dumps({"traceEvents": events, "compiles.1": {"rows": compiled}}))
    names = ("id", "kind", "calls", "run_ns", "device_ns", "steps_to_win")
    with tg.open(path) as trace:
        rows = [tuple(row[name] for name in names) for row in trace.ask("compiles")]
    assert rows == [
        ("0/0", "first", 4, 4 * 18000 - 4000, 0, pytest.approx(180 * 4 / 68)),
        ("0/0", "backward", 4, 4 * 20000, 0, pytest.approx(5)),
        ("1/0", "first", 4, 4 * 12000, 4 * 24000, pytest.approx(2)),
        ("2/0", "first", 0, 0, 0, None),
    ]
