"""A CUDA device that goes away while it is recorded: the warning, the member of the file, and the host's records."""

import json
import subprocess
import sys

import pytest
from test_cuda_traces import FAKES

PROGRAM = """
import ctypes, sys
fakes, out, script = sys.argv[1:]
before, _, script = script.rpartition("|")
cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")
ctypes.CDLL(f"{fakes}/libcuda.so.1")
assert cupti.fake_run(before.encode()) == 0
import tachograph as tg
from tachograph import _record
from tachograph._collect.native import NativeRecording
recording = NativeRecording(out, _record.PROCESS | _record.CUDA | _record.CUDA_MEMORY, required=_record.CUDA)
recording.start()
kernel = "kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 behind\\n"
assert cupti.fake_run((kernel + script).encode()) == 0
_record.range_begin("host")
_record.range_end()
recording.stop()
tg.open(out).export(f"{out}.json")
"""


@pytest.mark.parametrize(
    ("script", "member", "words"),
    [
        ("", None, ""),
        (
            "takeover",
            "taken",
            "another profiler took CUPTI over during the recording: device work from then on is missing",
        ),
        ("destroy 1\nhold", "reset", "a device was reset, or a context destroyed, during the recording"),
        ("refuse 17 12|", "refused", ""),
        ("refuse 50 12|", "refused", "CUPTI refused some kinds of record, which are missing: MEMORY_POOL"),
        ("broken 700", "reset", "a device was reset, or a context destroyed, during the recording"),
    ],
)
def test_lost_device(tmp_path, script, member, words):
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    out = tmp_path / "run.tacho"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, FAKES, out, script], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning") == bool(words) and words in done.stderr
    document = json.loads((tmp_path / "run.tacho.json").read_text())
    recorder = document["cudaRecorder"]
    assert [name for name in ("taken", "reset", "refused") if recorder[name]] == ([member] if member else [])
    names = [e.get("name") for e in document["traceEvents"]]
    assert names.count("host") == 1 and names.count("behind") == (0 if member in ("taken", "reset") else 1)
