"""Ten exercises of the texts that teach profiling: small programs and traces, each made as the text describes it.
Only `tachograph diagnose` is used, and it must name the cause of the text as the first thing to change.

Programs are recorded by the command, with TG_LONG=1; traces of devices are written here."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "zoo"))
import synthetic as zoo

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")


def diagnose(folder, what):
    environment = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [TACHOGRAPH, "diagnose", "--json", what],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]], answer["notes"]


# ---- traces of devices ----------------------------------------------------------------------------------------


def value_of_each_layer():
    """Exercise 2 of the course day: a model of ten layers that asks `if x.sum().item() > 0` behind each."""
    p, step = zoo.Program(), 10 * 400
    for i in range(8):
        p.step(i + 1, i * step, step)
        for layer in range(10):
            at = i * step + layer * 400
            p.launch("ampere_sgemm_128x64_nn", at + 4, at + 12, 100, op="aten::addmm")
            p.launch("reduce_kernel<512, 1, ReduceOp<float>>", at + 40, at + 113, 5, op="aten::sum")
            p.host("aten::item", at + 60, 100, **{"Call stack": "exercise2.py(17): forward"})
            p.host("aten::_local_scalar_dense", at + 61, 98)
            p.launch("Memcpy DtoH (Device -> Pageable)", at + 62, at + 120, 2, "cudaMemcpyAsync", cat="gpu_memcpy")
            p.host("cudaStreamSynchronize", at + 70, 86, "cuda_runtime", correlation=100000 + i * 10 + layer)
            p.host("exercise2.py(17): forward", at + 165, 230, "python_function", **{"Python id": layer})
    return p


DEVICES = [
    ("a value of each layer is read", value_of_each_layer, "host-synchronisation"),
    ("synchronize around each part", lambda: zoo.waits_in("cudaDeviceSynchronize"), "host-synchronisation"),
    ("copies from pageable memory", lambda: zoo.waits_in("cudaMemcpyAsync"), "blocking-copy"),
    ("all-reduce behind the backward pass", lambda: zoo.exposed_collective(6000), "communication-not-overlapped"),
    ("hundreds of thin bars", zoo.launch_bound, "many-small-ops"),
]


@pytest.mark.parametrize("make, cause", [row[1:] for row in DEVICES], ids=[row[0] for row in DEVICES])
def test_a_trace_of_a_device(tmp_path, make, cause):
    rows, notes = diagnose(tmp_path, make().write(tmp_path / "trace.json"))
    changes = [row["item"] for row in rows if row["part"] == "change"]
    assert changes[:1] == [cause], (changes, notes)


# ---- programs -------------------------------------------------------------------------------------------------

TRAINING = """
    import time, torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, foreach=True)
    data = torch.randn(64, 256)

    def train(batch):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    class Slow(Dataset):
        def __len__(self):
            return 480
        def __getitem__(self, i):
            time.sleep(0.006)  # a batch takes 48 ms: more than the step does where other programs take its core
            return torch.full((256,), float(i % 7))
"""
PROGRAMS = {
    "waiting for the next batch": (  # the loader takes many times what the step does, without workers
        "for batch in DataLoader(Slow(), batch_size=8):\n    train(batch)",
        {"loader-in-main-process"},
    ),
    "storage that blocks its workers": (
        "for batch in DataLoader(Slow(), batch_size=8, num_workers=1):\n    train(batch)",
        {"loader-too-slow"},
    ),
    "bursts every five steps": (  # a trainer that saves too often
        (
            "weights = [torch.randn(1500, 1500)] * 4\nfor i in range(60):\n    train(data)\n"
            "    if i % 5 == 4:\n        torch.save(weights, 'weights.pt')"
        ),
        {"sync-checkpoint", "periodic-stall"},
    ),
    "preprocessing in the loop": (
        "for i in range(45):\n    total = 0.0\n    for k in range(200000):\n        total = total * 0.5 + k\n    train(data)",
        {"slow-python-transform"},
    ),
    "transposed copies before products": (
        (
            "a, b = torch.randn(4, 1500), [torch.randn(1500, 1500, requires_grad=True) for _ in range(4)]\n"
            "for i in range(45):\n    optimizer.zero_grad()\n"
            "    sum((a @ w.t().contiguous()).sum() for w in b).backward()\n    train(data)"
        ),
        {"layout-conversion"},
    ),
}


@pytest.mark.long
@pytest.mark.timing
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(tmp_path, name):
    pytest.importorskip("torch")
    text, causes = PROGRAMS[name]
    (tmp_path / "program.py").write_text(textwrap.dedent(TRAINING) + text + "\n")
    rows, notes = diagnose(tmp_path, "program.py")
    changes = [row["item"] for row in rows if row["part"] == "change"]
    assert changes and changes[0] in causes, (changes, notes)
