"""Shared by the tests of the recorder's Python side: which backends there are, and how a trace file is looked at."""

import gzip
import json
import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph._collect.backend import _native_class

torch.set_num_threads(1)
BACKENDS = ["kineto"] + (["native"] if _native_class()[0] else [])
CPU, CUDA, XPU = tg.ProfilerActivity.CPU, tg.ProfilerActivity.CUDA, tg.ProfilerActivity.XPU
needs_no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")


def load(path):
    data = pathlib.Path(path).read_bytes()
    return json.loads(gzip.decompress(data) if str(path).endswith(".gz") else data)


def events_of(source, category=None):
    """Events of a file, or of a profiler's last window."""
    if isinstance(source, tg._KinetoProfile):
        return [row for row in source.trace.ask("events") if category in (None, row["category"])]
    return [e for e in load(source)["traceEvents"] if category in (None, e.get("cat"))]


def names(source, category=None, start=""):
    return [e["name"] for e in events_of(source, category) if e["name"].startswith(start)]


def steps(source):
    """Numbers of the recorded steps."""
    return sorted(int(name.split("#")[1]) for name in names(source, "user_annotation", "ProfilerStep#"))


def loop(prof, count, body=lambda: torch.ones(4) + 1):
    for _ in range(count):
        body()
        prof.step()


def quiet_schedule(**arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tg.schedule(**arguments)
