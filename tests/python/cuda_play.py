"""Records a script of tests/fake in a process of its own: python cuda_play.py FAKE_DIR SCRIPT OUT. Prints what the
source did, as JSON."""

import ctypes
import json
import pathlib
import sys
import time

fakes, script, out = sys.argv[1:]
cupti = ctypes.CDLL(f"{fakes}/libcupti.so.12")  # found as one that is loaded already
ctypes.CDLL(f"{fakes}/libcuda.so.1")

from tachograph import _record
from tachograph._collect.native import NativeRecording

text = pathlib.Path(script).read_text()
machine = "\n".join(line for line in text.splitlines() if line.startswith("device "))
cupti.fake_run(machine.encode())  # what is there before anything is recorded
recording = NativeRecording(out, _record.CUDA | _record.CUDA_WAITS | _record.CUDA_MEMORY, required=_record.CUDA)
recording.start()
time.sleep(0.03)  # what the rate of the clock is measured over
line = cupti.fake_run(text.encode())
if line:
    sys.exit(f"line {line} of the script is no command")
_record.range_begin("work")
time.sleep(0.25)
_record.range_end()
recording.stop()
print(json.dumps({**_record.cuda(), "enabled": cupti.fake_number(b"enabled")}))
