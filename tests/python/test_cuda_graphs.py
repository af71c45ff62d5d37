"""What a CUDA graph does is the work of the operator and the module that were captured."""

import subprocess
import sys

import pytest
import tachograph as tg
from test_cuda_traces import FAKES, ROOT


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("this torch is linked with NVIDIA's libraries, of which a stand-in has a part")
    out = tmp_path_factory.mktemp("cuda") / "run.tacho"
    command = [sys.executable, ROOT / "tests/python/cuda_graph_program.py", FAKES, out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
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
