"""Real traces, played through the stand-in for CUPTI and recorded: the same kernels, copies, calls and waits come out,
on the same streams, with the same links, sizes and times. That ties the stand-in, and the source, to what CUPTI really
says."""

import collections
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tachograph as tg

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRACES = pathlib.Path(os.environ.get("TG_TRACES", ROOT.parent / "shared/traces"))
FAKES = pathlib.Path(os.environ.get("TACHOGRAPH_LIBRARY", ROOT / "build/libtachograph.so")).parent / "fake"
SMALL = ("crit_simple_add/trace", "crit_event_sync/trace", "diff_bert_h100_mi300/h100", "exectrace_simple_add/trace")
LARGE = ("infer_h100_qwen/trace", "infer_h100_timesformer_stack/trace", "train_v100_ns/rank-0.pt.trace")
COPIES = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
PLACES = ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"]
WAITS = ["Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"]
QUIET = {"cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError"} | {
    f"cudaEvent{what}" for what in ("Create", "CreateWithFlags", "Destroy")
}
BLOCK_SHARED = 48 << 10  # a block has it without asking for more
KEPT = {"cuLaunchKernel", "cuLaunchKernelEx"}
CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync")


def is_recorded(event):
    name, cat = event["name"], event["cat"]
    if cat == "cuda_driver":
        return name in KEPT
    return cat in CATEGORIES and not (cat == "cuda_runtime" and name in QUIET)


class Script:
    def __init__(self, document):
        self.events = [e for e in document["traceEvents"] if e.get("ph") == "X" and e.get("cat") in CATEGORIES]
        self.origin = min(e["ts"] for e in self.events)
        self.lines, self.functions = [], {}
        for device in document.get("deviceProperties", []):
            self.lines.append(
                f"device {device['id']} {device['numSms']} {device['maxThreadsPerMultiprocessor'] // 32} 32 "
                f"{device['sharedMemPerMultiprocessor']} {device['computeMajor']} {device['name']}"
            )
        for event in self.events:
            getattr(self, "put_" + event["cat"])(event, event["args"])

    def ns(self, event):
        start = round((event["ts"] - self.origin) * 1000)
        return f"{start} {start + round(event['dur'] * 1000)}"

    def put(self, word, event, *rest):
        self.lines.append(" ".join([word, self.ns(event), *map(str, rest)]))

    def put_kernel(self, e, a):
        shape = [*a["grid"], *a["block"], a["registers per thread"], 0, a["shared memory"]]
        where = (
            a["device"],
            a["context"],
            a["stream"],
            a["correlation"],
            a.get("graph id", 0),
            a.get("graph node id", 0),
        )
        self.put("kernel", e, *where, *shape, e["name"])

    def put_gpu_memcpy(self, e, a):
        kind, source, target = re.fullmatch(r"Memcpy (\w+) \((.*) -> (.*)\)", e["name"]).groups()
        kinds = COPIES.index(kind), PLACES.index(source), PLACES.index(target)
        self.put("memcpy", e, a["device"], a["context"], a["stream"], a["correlation"], a["bytes"], *kinds)

    def put_gpu_memset(self, e, a):
        place = PLACES.index(re.fullmatch(r"Memset \((.*)\)", e["name"])[1])
        self.put("memset", e, a["device"], a["context"], a["stream"], a["correlation"], a["bytes"], place)

    def put_call(self, word, domain, e, a):
        if self.functions.setdefault((domain, a["cbid"]), e["name"]) == e["name"]:
            self.lines.insert(0, f"function {domain} {a['cbid']} {e['name']}_v3020")
        self.put(word, e, a["cbid"], e["tid"], a["correlation"])

    def put_cuda_runtime(self, e, a):
        self.put_call("runtime", 2, e, a)

    def put_cuda_driver(self, e, a):
        self.put_call("driver_call", 1, e, a)

    def put_cuda_sync(self, e, a):
        stream = a["stream"] if a["stream"] >= 0 else 2**32 - 1
        event = a.get("wait_on_cuda_event_id", 0)
        if a.get("wait_on_stream", -1) >= 0:
            recorded = max(a.get("wait_on_cuda_event_record_corr_id", 0), 0)
            self.lines.append(f"event {a['context']} {a['wait_on_stream']} {event} {recorded}")
        kind = WAITS.index(a["cuda_sync_kind"])
        self.put("sync", e, kind, a["context"], stream, event, a["correlation"])

    def text(self):
        once = list(dict.fromkeys(line for line in self.lines if line.startswith("function")))
        return "\n".join([*once, *(line for line in self.lines if not line.startswith("function"))]) + "\n"


def key(event):
    a = event["args"]
    same = [a.get(k) for k in ("correlation", "device", "context", "stream", "bytes", "cbid", "cuda_sync_kind")]
    also = [
        a.get(k)
        for k in ("registers per thread", "shared memory", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
    ]
    also = [None if value == -1 else value for value in also]
    if same[3] == 2**32 - 1:  # so older collectors write "all streams"
        same[3] = -1
    place = event["tid"] % 2**32 if event["cat"] in ("cuda_runtime", "cuda_driver") else event["pid"]
    return (event["cat"], event["name"], place, *same, *also, str(a.get("grid")), str(a.get("block")))


def counted(events):
    return collections.Counter(map(key, events))


def paired(before, after):
    """Events of the same key, in the order of their times."""
    groups = collections.defaultdict(lambda: ([], []))
    for side, events in enumerate((before, after)):
        for event in sorted(events, key=lambda e: e["ts"]):
            groups[key(event)][side].append(event)
    return [pair for one, two in groups.values() for pair in zip(one, two, strict=True)]


def record(tmp_path, script):
    (tmp_path / "script").write_text(script)
    command = [sys.executable, ROOT / "tests/python/cuda_play.py", FAKES, tmp_path / "script", tmp_path / "run.tacho"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out.json"
    tg.open(tmp_path / "run.tacho").export(out, lanes="keep")
    return json.loads(out.read_text()), json.loads(done.stdout)


def traces():
    for name in SMALL + LARGE:
        long = name in LARGE and "TG_LONG" not in os.environ
        yield pytest.param(name, marks=pytest.mark.skipif(long, reason="a long trace: TG_LONG=1"), id=name)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.skipif(not FAKES.is_dir(), reason="a build with tests has the stand-ins: make build-tests")
@pytest.mark.parametrize("name", list(traces()))
def test_same_as_the_trace(tmp_path, name):
    with gzip.open(TRACES / f"{name}.json.gz", "rt") as file:
        document = json.load(file)
    script = Script(document)
    result, state = record(tmp_path, script.text())
    before = [e for e in script.events if is_recorded(e)]
    after = [e for e in result["traceEvents"] if e.get("cat") in CATEGORIES]
    assert counted(after) == counted(before)
    assert state["lost"] == 0 and state["enabled"] == 0 and state["callbacks"] == 0
    pairs = paired(before, after)
    assert len(pairs) == len(before) > 10
    origin = min(e["ts"] for e in after) - min(e["ts"] - script.origin for e in before)
    span_us = max(e["ts"] for e in before) - script.origin
    allowed_us = 0.2 + span_us * 1e-4  # clocks are read apart: 100 in a million
    for one, two in pairs:
        assert abs((two["ts"] - origin) - (one["ts"] - script.origin)) <= allowed_us
        assert abs(two["dur"] - one["dur"]) <= 0.003 + one["dur"] * 1e-4
        check_launch(one["args"], two["args"])


def check_launch(one, two):
    if "blocks per SM" not in one or "blocks per SM" not in two:
        return
    assert two["blocks per SM"] == pytest.approx(one["blocks per SM"], rel=1e-5, abs=1e-6)
    assert two["warps per SM"] == pytest.approx(one["warps per SM"], rel=1e-5, abs=1e-6)
    if one["est. achieved occupancy %"] == 0 and one["shared memory"] > BLOCK_SHARED:
        return  # torch's collector does not compute it there
    assert two["est. achieved occupancy %"] == one["est. achieved occupancy %"], (one, two)
