"""A recording of CUDA as tools see it that read the traces of Kineto: ids of operators on calls and kernels, flows."""

import decimal
import json
import pathlib
import subprocess
import sys

import pytest
from test_cuda_traces import FAKES, ROOT


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("this torch is linked with NVIDIA's libraries, of which a stand-in has a part")
    out = tmp_path_factory.mktemp("cuda") / "run.tacho"
    command = [sys.executable, ROOT / "tests/python/cuda_program.py", FAKES, out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document = json.loads(pathlib.Path(f"{out}.json").read_text(), parse_float=decimal.Decimal)
    assert document["cudaRecorder"]["kernels"] == 2
    return document["traceEvents"]


def one(events, **members):
    found = [e for e in events if all(e.get(key) == value for key, value in members.items())]
    assert len(found) == 1, members
    return found[0]


def test_external_ids(events):
    op = one(events, name="gpu::work")["args"]["External id"]
    assert op > 0
    assert one(events, name="cudaLaunchKernel")["args"]["External id"] == op
    assert one(events, name="cudaStreamSynchronize")["args"]["External id"] == op
    assert one(events, name="first")["args"]["External id"] == op
    assert one(events, name="second")["args"]["External id"] == op
    ids = [e["args"]["External id"] for e in events if e.get("cat") == "cpu_op"]
    assert len(set(ids)) == len(ids)


def test_label_on_its_stream(events):
    label, span = (one(events, cat=cat, name="batch") for cat in ("user_annotation", "gpu_user_annotation"))
    first, second = one(events, name="first"), one(events, name="second")
    assert (span["pid"], span["tid"]) == (0, 7)
    assert span["args"]["External id"] == label["args"]["External id"] > 0
    assert first["ts"] - span["ts"] == decimal.Decimal("0.001")
    assert span["ts"] + span["dur"] - second["ts"] - second["dur"] == decimal.Decimal("0.001")


def test_flows(events):
    launch = one(events, name="cudaLaunchKernel")
    start = one(events, cat="ac2g", ph="s")
    assert (start["id"], start["pid"], start["tid"], start["ts"]) == (77, launch["pid"], launch["tid"], launch["ts"])
    ends = [e for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"]
    kernels = [one(events, name=name) for name in ("first", "second")]
    assert [(e["id"], e["pid"], e["tid"], e["ts"]) for e in ends] == [(77, 0, 7, k["ts"]) for k in kernels]


def test_rows(events):
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    labels = {e["pid"]: e["args"]["labels"] for e in events if e.get("name") == "process_labels"}
    assert names[0, 7] == "stream 7 "
    assert labels[0] == "GPU 0"
