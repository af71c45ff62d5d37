"""Compiled, replayed and eager time of a step: worked out by hand, and microsecond by microsecond."""

import json
import random

import pytest

tg = pytest.importorskip("tachograph")

GRAPH = "## Call CompiledFxGraph f ##"
REGION = "Torch-Compiled Region: {}/0"


def host(name, start, end, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": end - start, "args": args}


def call(name, start, end, correlation):
    return host(name, start, end, "cuda_runtime", correlation=correlation)


def kernel(name, start, end, correlation, stream=7):
    event = host(name, start, end, "kernel", correlation=correlation, device=0, stream=stream)
    return {**event, "pid": 0, "tid": stream}


def step(number, start, end):
    return host(f"ProfilerStep#{number}", start, end, "user_annotation")


def write(folder, events, name="trace.json"):
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


BROKEN = [
    step(0, 0, 200),
    host(REGION.format(0), 10, 110),
    host(GRAPH, 12, 50, "user_annotation"),
    call("cudaLaunchKernel", 20, 22, 1),
    kernel("gemm", 30, 40, 1),
    host("aten::mul", 60, 80),  # between two graphs
    call("cudaLaunchKernel", 62, 64, 2),
    kernel("mul", 70, 75, 2),
    host(REGION.format(1), 85, 105),
    host(GRAPH, 88, 100, "user_annotation"),
    host("aten::add", 120, 130),
    call("cudaGraphLaunch", 140, 150, 3),
    kernel("gemm", 145, 155, 3),
    kernel("triton_poi_fused_add_0", 155, 165, 3),
]


def codes(row):
    return row["compiled_ns"], row["replayed_ns"], row["eager_ns"]


def work_of(row):
    return row["total_ns"] - row["dataloader_ns"] - row["bare_ns"]


def test_a_broken_graph_and_a_replayed_one_by_hand(tmp_path):
    """Compiled: 10 on the device; on the host 100 of the region without 20 of the operator between its graphs and the
    10 of the device. Replayed: 20 on the device, 5 of its launch before. Eager: that operator, and one behind."""
    with tg.open(write(tmp_path, BROKEN)) as trace:
        (row,) = trace.ask("steps")
        assert codes(row) == (80_000, 25_000, 30_000) and sum(codes(row)) == work_of(row)
        overview = {r["quantity"]: r["value"] for r in trace.ask("overview") if r["group"] == "code"}
    assert overview == {"compiled": 80_000, "replayed": 25_000, "eager": 30_000}


def test_regions_without_graphs_count_as_a_whole(tmp_path):
    """A backend other than Inductor marks no graphs."""
    events = [step(0, 0, 100), host(REGION.format(0), 10, 60), host("aten::mul", 20, 30), host("aten::add", 70, 75)]
    with tg.open(write(tmp_path, events)) as trace:
        (row,) = trace.ask("steps")
    assert codes(row) == (50_000, 0, 5_000)


def test_a_backward_pass_counts_and_the_compiler_does_not(tmp_path):
    events = [
        step(0, 0, 200),
        host(REGION.format(0), 10, 60),
        host("_compile.compile_inner (dynamo_timed)", 15, 35),
        host("CompiledFunction", 40, 50),
        host("CompiledFunctionBackward", 100, 130),
        host("aten::mm", 105, 115),
    ]
    with tg.open(write(tmp_path, events)) as trace:
        (row,) = trace.ask("steps")
    assert codes(row) == (30_000 + 30_000, 0, 20_000)


def test_nothing_is_said_where_nothing_is_compiled(tmp_path):
    events = [step(0, 0, 100), host("aten::mul", 20, 30), call("cudaLaunchKernel", 22, 24, 1), kernel("k", 25, 40, 1)]
    with tg.open(write(tmp_path, events)) as trace:
        (row,) = trace.ask("steps")
        assert codes(row) == (None, None, None)
        assert not [r for r in trace.ask("overview") if r["group"] == "code"]


# ---- microsecond by microsecond


class Made:
    """A random program of one thread and two streams; slices nest, device work comes after its launch."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.events, self.correlation = [], 0
        self.at = 0
        for n in range(self.rnd.randint(1, 3)):
            start = self.at
            self.at += 1
            for _ in range(self.rnd.randint(1, 5)):
                self.block(0, ())
                self.at += self.rnd.randint(0, 6)
            self.at += 60  # device work ends inside its step
            self.events.append(step(n, start, self.at))

    def block(self, depth, around):
        kind = self.rnd.choice(["op", "region", "graph", "launch", "replay", "launch"])
        if kind in ("launch", "replay"):
            self.launch(kind)
            return
        name = {"op": "aten::mul", "region": REGION.format(depth), "graph": GRAPH}[kind]
        start = self.at
        self.at += self.rnd.randint(1, 4)
        for _ in range(self.rnd.randint(0, 3) if depth < 4 else 0):
            self.block(depth + 1, (*around, kind))
            self.at += self.rnd.randint(0, 3)
        self.at += self.rnd.randint(1, 4)
        self.events.append(host(name, start, self.at, "user_annotation" if kind == "graph" else "cpu_op"))

    def launch(self, kind):
        self.correlation += 1
        start, length = self.at, self.rnd.randint(1, 3)
        self.at += length
        self.events.append(
            call("cudaGraphLaunch" if kind == "replay" else "cudaLaunchKernel", start, self.at, self.correlation)
        )
        begin = self.at + self.rnd.randint(0, 20)
        name = self.rnd.choice(["gemm", "triton_red_fused_1"])
        stream = 100 + self.correlation  # streams of their own: work of one never overlaps
        self.events.append(kernel(name, begin, begin + self.rnd.randint(1, 15), self.correlation, stream))


def covers(event, us):
    return event["ts"] <= us < event["ts"] + event["dur"]


def is_graph(event):
    return event["name"] == GRAPH


def is_in_code(events, us, has_graphs):
    """Of the host at an instant, from the innermost slice outwards."""
    stack = [
        e for e in events if e["cat"] in ("cpu_op", "user_annotation") and covers(e, us) and "Step#" not in e["name"]
    ]
    is_between = False
    for event in sorted(stack, key=lambda e: e["dur"]):
        if is_graph(event):
            return True
        if event["name"].startswith("Torch-Compiled"):
            return not (is_between and has_graphs)
        is_between = True
    return False


def oracle(events, us, has_graphs):
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    working = [e for e in events if e["cat"] == "kernel" and covers(e, us)]
    if working:
        launches = [calls[e["args"]["correlation"]] for e in working]
        if any(c["name"] == "cudaGraphLaunch" for c in launches):
            return "replayed"
        in_code = [is_in_code(events, c["ts"], has_graphs) for c in launches]
        return "compiled" if any(in_code) or any("triton" in e["name"] for e in working) else "eager"
    if any(covers(c, us) and c["name"] == "cudaGraphLaunch" for c in calls.values()):
        return "replayed"
    if is_in_code(events, us, has_graphs):
        return "compiled"
    is_host = any(covers(e, us) and "Step#" not in e["name"] and e["cat"] != "kernel" for e in events)
    return "eager" if is_host else None


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_instant_by_instant(tmp_path, seed):
    made = Made(seed)
    has_graphs = any(is_graph(e) for e in made.events)
    with tg.open(write(tmp_path, made.events)) as trace:
        rows = list(trace.ask("steps"))
    assert rows
    for row in rows:
        first = row["start_ns"] // 1000
        instants = [oracle(made.events, us, has_graphs) for us in range(first, first + row["total_ns"] // 1000)]
        want = tuple(1000 * instants.count(kind) for kind in ("compiled", "replayed", "eager"))
        if row["compiled_ns"] is not None:
            assert codes(row) == want
            assert sum(codes(row)) == work_of(row)
        else:
            assert want[:2] == (0, 0)


# ---- two traces


def loop(names, region):
    """Twelve steps, each of which launches these kernels."""
    events, correlation = [], 0
    for n in range(12):
        at = 1000 * n
        events.append(step(n, at, at + 900))
        events.append(host(REGION.format(0) if region else "aten::add", at + 1, at + 400))
        for k, name in enumerate(names):
            correlation += 1
            events.append(call("cudaLaunchKernel", at + 10 + 20 * k, at + 12 + 20 * k, correlation))
            events.append(kernel(name, at + 15 + 20 * k, at + 25 + 20 * k, correlation))
    return events


EAGER = ["mul", "add", "relu", "gemm", "sub"]
FUSED = ["triton_poi_fused_add_mul_0", "gemm", "triton_poi_fused_relu_sub_1"]


def fusion_notes(diff):
    return [note for note in diff.notes if "fused" in note]


def test_diff_says_what_was_fused(tmp_path):
    """Five kernels, of which the product stays, are three: four became two."""
    a, b = write(tmp_path, loop(EAGER, False), "a.json"), write(tmp_path, loop(FUSED, True), "b.json")
    diff = tg.diff(a, b)
    assert fusion_notes(diff) == ["B is compiled, A is not: torch.compile fused 4 kernels a step into 2"]
    assert fusion_notes(tg.diff(b, a)) == ["A is compiled, B is not: torch.compile fused 4 kernels a step into 2"]
    code = {r["name"]: (r["a"], r["b"]) for r in diff.table if r["by"] == "category" and r["quantity"] == "code"}
    assert code == {"compiled": (0, 399_000), "eager": (399_000, 0)}


def test_diff_says_nothing_of_two_that_are_compiled_or_not(tmp_path):
    for n, (names, region) in enumerate([(EAGER, False), (FUSED, True)]):
        path = write(tmp_path, loop(names, region), f"{n}.json")
        diff = tg.diff(path, path)
        assert not fusion_notes(diff)
        assert any(r["quantity"] == "code" for r in diff.table) == region


def test_diff_says_nothing_of_fewer_kernels_that_are_not_fused(tmp_path):
    """The compiled side has as many others: nothing became fewer."""
    a = write(tmp_path, loop(["gemm"], False), "a.json")
    b = write(tmp_path, loop(["gemm", "triton_poi_fused_add_0"], True), "b.json")
    assert not fusion_notes(tg.diff(a, b))


def test_operators_of_the_host_are_fused_too(tmp_path):
    """An operator inside another is a part of it, and autograd nodes do not count: three of the program became one."""
    eager, compiled = [], []
    for n in range(12):
        at = 1000 * n
        for events in (eager, compiled):
            events.append(step(n, at, at + 900))
        for k, name in enumerate(("aten::linear", "aten::relu", "aten::sum")):
            eager.append(host(name, at + 20 * k + 5, at + 20 * k + 15))
        eager.append(host("aten::addmm", at + 6, at + 14))
        eager.append(host("autograd::engine::evaluate_function: SumBackward0", at + 100, at + 120))
        eager.append(host("aten::expand", at + 105, at + 115))
        compiled.append(host(REGION.format(0), at + 5, at + 60))
        compiled.append(host("cpp_fused_linear_relu_sum_0", at + 10, at + 50))
        compiled.append(host("aten::expand", at + 105, at + 115))
    diff = tg.diff(write(tmp_path, eager, "a.json"), write(tmp_path, compiled, "b.json"))
    assert fusion_notes(diff) == ["B is compiled, A is not: torch.compile fused 3 operators a step into 1 kernel"]
