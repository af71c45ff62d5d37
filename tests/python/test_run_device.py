"""`tachograph run` of a program that comes to its GPU while it is recorded, with the stand-ins of tests/fake."""

import json
import subprocess
import sys

import pytest
from test_cuda_traces import FAKES

PROGRAM = """
import ctypes, sys
fakes, out, way = sys.argv[1:]
for number in (12, 13):  # before torch: one for CUDA takes those that are loaded, in place of NVIDIA's own
    cupti = ctypes.CDLL(f"{fakes}/libcupti.so.{number}")
ctypes.CDLL(f"{fakes}/libcuda.so.1")
import torch
from tachograph._launch.recorders import open_recorder

torch.version.cuda = "12.8"
if way == "old driver":
    assert cupti.fake_run(b"broken 803\\n") == 0
said = []
settings = dict(preset="default", memory=0, bytes=0, session=0, attached=way == "attached")
queued = len(torch.cuda._queued_calls)
recorder = open_recorder(out, "start", settings, -1, said.append)
torch.zeros(3).sin()
assert len(torch.cuda._queued_calls) == queued + (way != "attached")
if way not in ("never", "attached"):
    for call, _ in torch.cuda._queued_calls:  # as torch does, once its CUDA is ready
        call()
    torch.zeros(3).cos()
    cupti.fake_run(b"kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 on_the_device\\n")
recorder.close()
for call, _ in torch.cuda._queued_calls:  # too late: nothing happens
    call()
import tachograph as tg
tg.open(out).export(f"{out}.json")
print("|".join(said))
"""


def record(folder, way):
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    out = folder / "start.tacho"
    done = subprocess.run([sys.executable, "-c", PROGRAM, FAKES, out, way], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document = json.loads((folder / "start.tacho.json").read_text())
    return document, [e.get("name") for e in document["traceEvents"]], done.stdout.strip()


def test_a_device_that_is_used_before_the_window_is_recorded(tmp_path):
    document, names, said = record(tmp_path, "used")
    assert names.count("on_the_device") == names.count("aten::sin") == names.count("aten::cos") == 1
    assert document["cudaRecorder"]["kernels"] == 1 and said == ""


def test_a_device_that_is_not_used_is_left_alone(tmp_path):
    document, names, said = record(tmp_path, "never")
    assert names.count("aten::sin") == 1 and said == "" and "cudaRecorder" not in document


def test_a_device_that_cannot_be_recorded_is_said(tmp_path):
    document, names, said = record(tmp_path, "old driver")
    assert names.count("aten::sin") == names.count("aten::cos") == 1 and "on_the_device" not in names
    assert said.startswith("note device work is not recorded: CUDA: ") and "cudaRecorder" not in document


def test_a_program_that_is_attached_to_keeps_no_call_of_ours(tmp_path):
    document, names, said = record(tmp_path, "attached")
    assert names.count("aten::sin") == 1 and said == "" and "cudaRecorder" not in document
