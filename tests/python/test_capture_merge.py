"""A trace of the capture names the kernels of a trace that replays the graph: by position, and no time changes."""

import json
import sys

import pytest

tg = pytest.importorskip("tachograph")

KEYS = ("captured op", "captured module", "captured stack")


def host(cat, name, start, end, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": end - start, "args": args}


def capture_of(layers, begin=0, edges=True, kernels=None, line=10):
    """Each layer is a module with aten::addmm, which launches two kernels, and aten::relu, which launches one."""
    events, at, correlation = [], begin + 10, begin * 10
    for layer in range(layers):
        first = at
        for op, launches in (("aten::addmm", 2), ("aten::relu", 1)):
            op_start = at
            for _ in range(launches):
                name = {"kernel": kernels[correlation - begin * 10]} if kernels else {}
                correlation += 1
                events.append(host("cuda_runtime", "cudaLaunchKernel", at + 1, at + 2, correlation=correlation, **name))
                at += 3
            events.append(host("cpu_op", op, op_start, at))
            at += 1
        ids = {"Python id": 100 * begin + 10 * layer, "Python parent id": 0}
        events.append(host("python_function", f"nn.Module: Layer_{layer}", first - 1, at, **ids))
        at += 3
    ids = {"Python id": 100 * begin + 9, "Python parent id": 0}
    events.append(host("python_function", f"net.py({line}): forward", begin + 5, at + 2, **ids))
    if edges:
        events.append(host("cuda_runtime", "cudaStreamBeginCapture", begin + 3, begin + 4, correlation=correlation + 1))
        events.append(host("cuda_runtime", "cudaStreamEndCapture", at + 3, at + 4, correlation=correlation + 2))
    return events


def replays_of(names, times, nodes=True):
    events = []
    for n in range(times):
        at = 1000 * n
        events.append(host("cuda_runtime", "cudaGraphLaunch", at, at + 5, correlation=n + 1))
        order = list(range(len(names)))
        if nodes:
            order.reverse()  # a second stream may begin a later node first
        for k, i in enumerate(order):
            args = {"correlation": n + 1, "device": 0, "stream": 7, "graph id": 3}
            args |= {"graph node id": 40 + i} if nodes else {}
            event = host("kernel", names[i], at + 10 + 7 * k, at + 15 + 7 * k, **args)
            events.append({**event, "pid": 0, "tid": 7})
    return events


def write(path, events):
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.fixture
def merge(tmp_path, tachograph):
    def run(replays, capture):
        a, b = write(tmp_path / "replay.json", replays), write(tmp_path / "capture.json", capture)
        out = tmp_path / "merged.json"
        environment = {"TACHOGRAPH_PYTHON": sys.executable}
        return tachograph("export", a, "--capture", b, "-o", out, env=environment), a, out

    return run


def named(path):
    with tg.open(path) as trace:
        return list(trace.ask("events", args=",".join(KEYS), where="category == 'kernel'"))


NAMES = ["gemm", "splitk", "relu"] * 2


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("nodes", [True, False])
def test_kernels_are_matched_by_position(merge, edges, nodes):
    done, before, after = merge(replays_of(NAMES, 40, nodes), capture_of(2, edges=edges))
    assert done.returncode == 0, done.stderr
    assert "240 kernels" in done.stdout
    rows = named(after)
    assert len(rows) == 240
    for row in rows:
        assert row[KEYS[0]] == ("aten::relu" if row["name"] == "relu" else "aten::addmm")
        assert row[KEYS[1]] in ("Layer_0", "Layer_1") and row[KEYS[2]] == "net.py(10): forward"
    assert sum(row[KEYS[1]] == "Layer_1" for row in rows) == 120
    assert sum(row["dur_ns"] for row in rows) == sum(row["dur_ns"] for row in named(before)) == 240 * 5000
    with tg.open(after) as trace:
        groups = {(row["name"], row["group"]): row["total_ns"] for row in trace.ask("kernels", by="op")}
        modules = {row["name"]: row["device_ns"] for row in trace.ask("modules")}
    assert groups == {(name, "aten::relu" if name == "relu" else "aten::addmm"): 80 * 5000 for name in set(NAMES)}
    assert modules["Layer_0"] == modules["Layer_1"] == 120 * 5000


def test_the_capture_of_the_same_size_is_taken(merge):
    """Captures of other batches are longer."""
    done, _, after = merge(replays_of(NAMES, 1), capture_of(3) + capture_of(2, begin=500))
    assert done.returncode == 0, done.stderr
    assert {row[KEYS[1]] for row in named(after)} == {"Layer_0", "Layer_1"}


def test_captures_that_say_the_same_are_one(merge):
    done, _, after = merge(replays_of(NAMES, 1), capture_of(2) + capture_of(2, begin=500))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "replays, capture, why",
    [
        (replays_of(NAMES[:-1], 1), capture_of(2), "has 5 kernels, and no capture as many (they have 6)"),
        (
            replays_of(NAMES, 1),
            capture_of(2, kernels=["gemm", "splitk", "tanh"] * 2),
            "kernel 3 of 6 of a graph is 'relu'",
        ),
        (replays_of(NAMES, 1), capture_of(2) + capture_of(2, begin=500, line=20), "2 captures have 6 kernels"),
        (replays_of(NAMES, 1), [host("cpu_op", "aten::mm", 0, 5)], "captures no graph"),
        ([host("cpu_op", "aten::mm", 0, 5)], capture_of(2), "replays no graph"),
    ],
)
def test_a_mismatch_is_refused_in_one_sentence(merge, replays, capture, why):
    done, _, after = merge(replays, capture)
    assert done.returncode == 2 and not after.exists()
    assert why in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("nodes", [True, False])
def test_a_replay_that_is_cut_off(merge, nodes):
    """The trace ends inside the third replay: nodes that the others name are known, positions are not."""
    events = replays_of(NAMES, 3, nodes)
    done, _, after = merge(events[:-4], capture_of(2))
    if not nodes:
        assert done.returncode == 2 and "has 2 kernels" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    rows = named(after)
    assert len(rows) == 14 and all(row[KEYS[0]] for row in rows)
    last = {row["name"]: row[KEYS[1]] for row in rows if row["start_ns"] >= 2_000_000}
    assert last == {"relu": "Layer_1", "splitk": "Layer_1"}  # the last nodes begin first here


def test_names_in_the_capture_are_held_against_those_that_ran(merge):
    done, _, after = merge(replays_of(NAMES, 1), capture_of(2, kernels=NAMES))
    assert done.returncode == 0, done.stderr


def test_only_json_is_written(tmp_path, tachograph):
    a = write(tmp_path / "a.json", replays_of(NAMES, 1))
    done = tachograph("export", a, "--capture", a, "-o", tmp_path / "x.folded")
    assert done.returncode == 2 and "--capture writes a trace as JSON" in done.stderr
