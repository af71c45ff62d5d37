"""What a CUDA graph does is the work of the operator and the module that were captured, also where that was before the
recording."""

import json
import os
import subprocess
import sys

import pytest
import tachograph as tg
from test_cuda_traces import FAKES, ROOT


def run(program, out):
    """The program with the stand-ins; what it prints."""
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("this torch is linked with NVIDIA's libraries, of which a stand-in has a part")
    command = [sys.executable, ROOT / "tests/python" / program, FAKES, out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    out = tmp_path_factory.mktemp("cuda") / "run.tacho"
    run("cuda_graph_program.py", out)
    return tg.open(out)


def test_kernels_by_operator(trace):
    rows = {row["name"]: row["group"] for row in trace.ask("kernels", by="op")}
    assert rows == {"of_graph": "gpu::project", "unknown": ""}


def test_modules_have_the_work(trace):
    rows = {row["name"]: row for row in trace.ask("modules")}
    assert set(rows) == {"Net_0", "Inner_0", "(outside of modules)"}
    assert rows["Net_0"]["device_ns"] == rows["Inner_0"]["self_device_ns"] == pytest.approx(100_000, abs=3)
    assert rows["Net_0"]["self_device_ns"] == 0


def test_a_kernel_says_where_it_was_captured(trace):
    keys = ("captured op", "captured module", "captured stack")
    rows = {row["name"]: row for row in trace.ask("events", args=",".join(keys), where="category == 'kernel'")}
    op, module, stack = (rows["of_graph"][key] for key in keys)
    assert (op, module) == ("gpu::project", "Net_0 / Inner_0")
    assert "cuda_graph_program.py(30): forward;" in stack
    assert [rows["unknown"][key] for key in keys] == [None] * 3


# ---- graphs that were captured while nothing was recorded (keep_graphs)

LAYERS = 24


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(what the program says, events of kernels by name)"""
    out = tmp_path_factory.mktemp("kept") / "run.tacho"
    said = json.loads(run("cuda_kept_program.py", out))
    keys = "captured op,captured module,captured stack"
    with tg.open(out) as trace:
        return said, {row["name"]: row for row in trace.ask("events", args=keys, where="category == 'kernel'")}


def line_of(text):
    lines = (ROOT / "tests/python/cuda_kept_program.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_every_node_has_its_operator_module_and_line(kept):
    said, kernels = kept
    assert len(said["captured"]) == len(kernels) == (said["graphs"] + 1) * LAYERS * 4
    for i, (node, op, (layer, module), function) in enumerate(said["captured"]):
        row = kernels[f"k{i}"]
        dead = node >> 32 == 1500  # of the model that is gone; its modules are counted behind those of the other
        layer += LAYERS * dead
        inner = f" / Project_{2 * layer + (module == 'down')}" if module else ""
        assert row["captured op"] == op
        assert row["captured module"] == f"Net_{int(dead)} / Layer_{layer}{inner}", row
        line = line_of(f"torch.ops.{op.replace('::', '.')}(x)")
        assert f"cuda_kept_program.py({line}): {function};" in row["captured stack"]


def test_a_launch_calls_nothing_back(kept):
    assert kept[0]["told"] == 0


def test_bytes_of_a_node(kept):
    """All that is kept: the table, the places, the modules and the names."""
    numbers = kept[0]["kept"]
    assert numbers["nodes"] == kept[0]["graphs"] * LAYERS * 4
    assert numbers["lost"] == 0
    assert numbers["bytes"] / numbers["nodes"] <= 64, numbers


def test_off_leaves_nothing(kept):
    said = kept[0]
    assert said["after"] == dict.fromkeys(said["after"], 0)
    assert (said["subscribed"], said["called"], said["off"]) == (0, 0, "__main__")


def test_a_wrong_variable_is_a_warning():
    code = "import tachograph; from tachograph._collect import kept_graphs; print(kept_graphs._most)"
    for value, most, said in (("1", 64 << 20, ""), ("16M", 16 << 20, ""), ("many", 0, "TACHOGRAPH_GRAPHS='many'")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TACHOGRAPH_GRAPHS": value},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0 and int(done.stdout) == most
        assert said in done.stderr and bool(said) == bool(done.stderr)


def test_nodes_without_room_are_a_warning(monkeypatch):
    kept_graphs = pytest.importorskip("tachograph._collect.kept_graphs")
    said = []
    monkeypatch.setattr(kept_graphs, "warn_once", said.append)
    for most, lost in ((0, 7), (1 << 20, 0), (1 << 20, 7)):
        monkeypatch.setattr(kept_graphs, "_most", most)
        monkeypatch.setattr(kept_graphs._record, "graphs_kept", lambda lost=lost: {"lost": lost})
        kept_graphs.warn_of_loss()
    assert len(said) == 1 and said[0].startswith("7 nodes of CUDA graphs had no room")


def test_run_switches_it_on(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text("import torch\nprint(torch.cuda.CUDAGraph.capture_begin.__module__)\n")
    done = subprocess.run(
        [os.environ.get("TACHOGRAPH", "tachograph"), "run", "--graphs", "-o", "out", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TACHOGRAPH_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout == "tachograph._collect.kept_graphs\n", done.stderr
