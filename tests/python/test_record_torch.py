"""What the recorder says to torch while it runs, and takes back: annotations of torch's own, compiled kernels, labels
under dynamo."""

import contextlib
import ctypes
import gc
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph as tg
from own_process import comes, least_growth_kib, mapped, threads
from tachograph._collect.native import NativeRecording, available

torch.set_num_threads(1)
OPS = record.OPS
usable, why = available()
pytestmark = pytest.mark.skipif(not usable, reason=why)


def names_in(path, where="1"):
    with tg.open(path) as trace:
        return list(
            trace.sql(f"SELECT name FROM slices WHERE category <> 'Trace' AND {where} ORDER BY start_ns")["name"]
        )


@pytest.fixture(autouse=True)
def nothing_left():
    original = torch._C._profiler._RecordFunctionFast
    yield
    assert torch._C._profiler._RecordFunctionFast is original
    assert not torch.autograd.profiler._is_profiler_enabled
    assert record.self_check()["clean"], record.self_check()


def test_ops_labels_and_torchs_own_annotations_are_in_one_file(tmp_path):
    with NativeRecording(tmp_path, OPS) as recording:
        assert torch.autograd.profiler._is_profiler_enabled
        with tg.record_function("ours"), torch.profiler.record_function("theirs"):
            with torch._C._profiler._RecordFunctionFast("fast"):
                torch.ones(3) + 1
    names = names_in(recording.path)
    assert [name for name in names if not name.startswith("aten::")] == ["ours", "theirs", "fast"]
    assert "aten::add" in names
    assert recording.stop() == recording.stats


def test_tensors_given_to_fast_annotations(tmp_path):
    values = [
        torch.zeros(2, 3),
        torch.zeros(4, dtype=torch.bfloat16)[::2],
        [torch.ones(1), torch.ones(2, 2)],
        torch.nn.Parameter(torch.ones(5)),
        torch.ones(3).to_sparse(),
        torch.ones(2, device="meta"),
        torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
    ]
    with NativeRecording(tmp_path, record.OPS | record.SHAPES) as recording:
        with torch._C._profiler._RecordFunctionFast("kernel", values):
            pass
    with tg.open(recording.path) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    (event,) = [e for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"] if e.get("name") == "kernel"]
    args = event["args"]
    assert args["Input Dims"][:4] == [[2, 3], [2], [[1], [2, 2]], [5]]
    assert args["Input type"][:4] == ["float", "c10::BFloat16", "TensorList", "float"]
    assert args["Input Strides"][:4] == [[3, 1], [2], [[1], [2, 1]], [1]]
    assert args["Input Dims"][4:6] == [[3], [2]] and args["Input Dims"][6] == []


def test_metadata_says_how_it_was_recorded(tmp_path):
    with NativeRecording(tmp_path, record.OPS | record.SHAPES, metadata={"note": '"x"'}) as recording:
        torch.ones(1)
    with tg.open(recording.path) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["record_shapes"] == 1 and document["note"] == "x" and len(document["trace_id"]) == 32
    assert "profile_memory" not in document and "with_stack" not in document
    assert document["traceName"] == str(tmp_path / "out.json")
    assert {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"} == {
        os.path.basename(sys.orig_argv[0])
    }
    subprocess.run(
        [sys.executable, "-m", "tachograph", "export", recording.path, "-o", tmp_path / "named.json.gz"], check=True
    )
    assert json.loads(gzip.decompress((tmp_path / "named.json.gz").read_bytes()))["traceName"] == str(
        tmp_path / "named.json.gz"
    )


def test_a_rank_names_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    recording = NativeRecording(tmp_path, record.OPS)
    assert recording.path == str(tmp_path / "rank3.tacho") and recording.rank == 3
    recording.stop()


def test_torch_that_comes_later_is_recorded_too(tmp_path):
    code = """
import sys
import threading
from tachograph import _record as record
from tachograph._collect.native import NativeRecording
assert "torch" not in sys.modules
with NativeRecording(sys.argv[1], record.OPS) as recording:
    import torch
    torch.ones(3) + 1
    kind = torch._C._profiler._RecordFunctionFast
    assert kind is record.RecordFunctionFast
assert torch._C._profiler._RecordFunctionFast is not kind
assert not any(type(f).__name__ == "Watch" and f.name != "torch._dynamo" for f in sys.meta_path)
assert record.self_check()["clean"]
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "aten::add" in names_in(tmp_path)


def torch_compiles_objects():
    """torch 2.4 breaks a graph at its own record_function, too, where the object was made outside."""
    made = torch.profiler.record_function("object")

    def model(x):
        with made:
            return x + 1

    torch._dynamo.reset()
    try:
        torch.compile(model, fullgraph=True, backend="eager")(torch.ones(2))
    except torch._dynamo.exc.Unsupported:
        return False
    return True


def test_labels_do_not_break_graphs(tmp_path):
    made_before = tg.record_function("object") if torch_compiles_objects() else contextlib.nullcontext()

    @tg.record_function("decorated")
    def part(x):
        return x.sin()

    def model(x):
        with tg.record_function("label"):
            y = x + 1
        with tg.record_function("label", "args"), made_before:
            y = part(y)
        return y * 2

    x = torch.arange(3.0)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))
    torch._dynamo.reset()
    with NativeRecording(tmp_path):
        assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))


@pytest.mark.skipif(
    os.environ.get("CXX") is None
    and not any(os.access(os.path.join(p, "g++"), os.X_OK) for p in os.environ["PATH"].split(os.pathsep)),
    reason="inductor needs a C++ compiler",
)
@pytest.mark.skipif(" " in torch.__file__, reason="inductor cannot link against a torch below a path with spaces")
def test_compiled_regions_and_kernels_appear_and_are_left_as_they_were(tmp_path):
    from torch._inductor.codecache import PyCodeCache

    def model(x):
        return (x.sin() + x.cos()).relu()

    torch._dynamo.reset()
    compiled = torch.compile(model)
    x = torch.arange(64.0)
    compiled(x)

    def kernels_now():
        loaded = PyCodeCache.modules if hasattr(PyCodeCache, "modules") else PyCodeCache.cache.values()
        return {(m.__name__, n): f for m in loaded for n, f in vars(m).items() if n.startswith("cpp_fused")}

    kernels = kernels_now()
    load = PyCodeCache.__dict__["load_by_key_path"]
    with NativeRecording(tmp_path / "first.tacho") as recording:
        compiled(x)
    names = names_in(recording.path)
    assert sum(name.startswith("cpp_fused") for name in names) == 1
    if hasattr(PyCodeCache, "modules"):  # torch 2.4 gives its compiled regions no names
        assert any(name.startswith("## Call CompiledFxGraph") for name in names)
    assert kernels == kernels_now()
    with NativeRecording(tmp_path / "second.tacho") as recording:  # a module that is loaded while recording
        late = PyCodeCache.load(
            "def cpp_fused_late(x, *, y=2): return x + y\nclass triton_x: pass\nother = cpp_fused_late\n"
        )
        assert late.cpp_fused_late(3, y=4) == 7 and late.cpp_fused_late.__name__ == "cpp_fused_late"
        assert isinstance(late.triton_x, type) and late.other is not late.cpp_fused_late
        with pytest.raises(TypeError):
            late.cpp_fused_late()
    assert names_in(recording.path) == ["cpp_fused_late", "cpp_fused_late"]
    assert late.other is late.cpp_fused_late and PyCodeCache.__dict__["load_by_key_path"] is load


def test_a_future_ends_the_span(tmp_path):
    future = torch.futures.Future()
    with NativeRecording(tmp_path, OPS) as recording:
        with tg.record_function("call") as span:
            result = span._call_end_callbacks_on_future(future)
            with pytest.raises(RuntimeError):
                span._call_end_callbacks_on_future(future)
        with tg.record_function("after"):
            pass
        future.set_result(5)
        assert result.wait() == 5
    with tg.open(recording.path) as trace:
        rows = {
            row["name"]: row
            for row in trace.sql("SELECT name, start_ns, end_ns, depth FROM slices WHERE name IN ('call', 'after')")
        }
    assert rows["call"]["end_ns"] > rows["after"]["end_ns"] and rows["call"]["start_ns"] < rows["after"]["start_ns"]


def test_torch_profiler_at_the_same_time(tmp_path):
    with NativeRecording(tmp_path, OPS) as recording:
        with torch.profiler.profile() as prof:
            with tg.record_function("ours"):
                torch.ones(3) + 1
        assert torch._C._profiler._RecordFunctionFast is record.RecordFunctionFast
    assert "aten::add" in names_in(recording.path) and "ours" in names_in(recording.path)
    assert "aten::add" in {event.key for event in prof.key_averages()}


def test_available_says_why_not(monkeypatch):
    monkeypatch.setattr(sys, "abiflags", "t")  # of a Python without the GIL
    ok, reason = available()
    assert not ok and "GIL" in reason


def test_started_and_stopped_elsewhere(tmp_path):
    def on_thread(act):
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()

    recording = NativeRecording(tmp_path, OPS)
    on_thread(recording.start)
    torch.ones(3) + 1
    on_thread(recording.pause)
    torch.ones(3) * 2
    recording.resume()
    on_thread(lambda: torch.ones(3) - 1)
    on_thread(recording.stop)
    names = names_in(recording.path)
    assert "aten::add" in names and "aten::mul" not in names and "aten::sub" in names


def test_stopped_inside_an_operation(tmp_path):
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).sum()
    recording = NativeRecording(tmp_path, OPS)
    x.register_hook(lambda grad: recording.stop() and None)
    recording.start()
    torch.ones(3) + 1
    y.backward()
    assert recording.stats is not None and "aten::add" in names_in(recording.path)


def test_a_forked_child_stops_its_own_part(tmp_path):
    recording = NativeRecording(tmp_path, OPS)
    recording.start()
    with tg.record_function("before"):
        torch.ones(3) + 1
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with tg.record_function("child"):
                torch.ones(3) + 1
            recording.stop()
            status = 0 if record.self_check()["clean"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with tg.record_function("after"):
        pass
    recording.stop()
    names = names_in(tmp_path, "category = 'user_annotation'")
    assert sorted(names) == ["after", "before", "child"] and len(list(tmp_path.glob("*.tacho"))) == 2


FORKS = """
import os, signal, sys, threading, time, torch
from tachograph import _record as r
torch.set_num_threads(1)
r.open(sys.argv[1], features=r.OPS, required=r.OPS)
assert r.fork_is_safe()
stop = threading.Event()
def work():
    x = torch.ones(4)
    while not stop.is_set():
        torch.add(x, x)
def change():
    while not stop.is_set():
        r.resume(), time.sleep(0.0003), r.pause(), time.sleep(0.0003)
threads = [threading.Thread(target=body) for body in (work, work, change)]
for thread in threads:
    thread.start()
ends = set()
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)  # a child that waits for ever ends by it
        torch.add(torch.ones(2), 1)
        os._exit(0)
    ends.add(os.waitpid(pid, 0)[1])
stop.set()
for thread in threads:
    thread.join()
r.close()
print(ends)
"""


def test_children_forked_while_recording_is_switched_on_and_off_run_operators(tmp_path):
    """Every thread takes a lock of torch's after each change of its callbacks; no fork happens meanwhile, for that lock
    is known."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "x.tacho")], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "{0}\n"), done.stderr[-2000:]


LATE = """
void *_ZN3c109alloc_cpuEm(unsigned long bytes);
void _ZN3c108free_cpuEPv(void *block);
void late(unsigned long bytes) { _ZN3c108free_cpuEPv(_ZN3c109alloc_cpuEm(bytes)); }
"""


def test_allocations_of_a_library_that_is_loaded_while_recording(tmp_path):
    """An extension of torch has slots of its own for torch's allocator; the next tick of the helper finds them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "late.c").write_text(LATE)
    libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    subprocess.run(
        [
            compiler,
            "-shared",
            "-fPIC",
            "-o",
            str(tmp_path / "late.so"),
            str(tmp_path / "late.c"),
            "-L" + libraries,
            "-lc10",
            "-Wl,-rpath," + libraries,
        ],
        check=True,
    )
    with NativeRecording(tmp_path / "out", OPS | record.MEMORY) as recording:
        late = ctypes.CDLL(str(tmp_path / "late.so")).late
        late.argtypes = [ctypes.c_ulong]

        def is_recorded():
            before = record.state()["records"]
            late(123456)
            return record.state()["records"] - before == 2

        assert comes(is_recorded)  # a tick is due ten times a second
        assert [is_recorded() for _ in range(4)] == [True] * 4
    with tg.open(recording.path) as trace:
        sizes = list(trace.sql("SELECT value FROM mark_args WHERE key = 'Bytes'")["value"])
    seen = [size for size in sizes if abs(size) == 123456]
    assert seen[-10:] == [123456, -123456] * 5, sizes[:20]
    assert len(set(seen[:-10])) <= 1  # calls that run while the two slots are taken over show with one half


def test_a_killed_process_leaves_its_metadata(tmp_path):
    code = (
        "import os, signal, sys, torch\nfrom tachograph import _record\nfrom tachograph._collect.native import NativeRecording\n"
        "NativeRecording(sys.argv[1], _record.OPS, metadata={'note': '7'}).start()\ntorch.ones(3) + 1\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=600)
    with tg.open(tmp_path) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["note"] == 7 and any(event.get("name") == "aten::add" for event in document["traceEvents"])


def test_a_file_that_the_end_of_the_process_closed_first(tmp_path):
    recording = NativeRecording(tmp_path / "x.tacho", OPS)
    recording.start()
    torch.ones(3) + 1
    records = record.close()["records"]
    assert records > 1 and recording.stop()["records"] == records
    assert len(tg.open(str(tmp_path / "x.tacho")).ask("events")) > 1


def test_sessions_leave_nothing(tmp_path):
    def session():
        with NativeRecording(tmp_path / "x.tacho", OPS | record.GC):
            torch.ones(3) + 1

    def sessions(count):
        for _ in range(count):
            session()
        gc.collect()  # Python 3.14 leaves megabytes of cycles until its next collection

    sessions(30)
    assert least_growth_kib(lambda: sessions(75)) < 1024 and mapped(str(tmp_path)) == 0


def test_labels_are_switched_with_the_operators(tmp_path):
    with NativeRecording(tmp_path, OPS | record.GC) as recording:
        for name, on in (("first", True), ("second", False), ("third", True)):
            recording.toggle(OPS, on)
            with tg.record_function(name), torch._C._profiler._RecordFunctionFast(name + " fast"):
                torch.ones(3) + 1
    names = [name for name in names_in(recording.path) if not name.startswith("Python")]
    assert [name for name in names if not name.startswith("aten::")] == ["first", "first fast", "third", "third fast"]
    assert names.count("aten::add") == 2


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_a_job_is_named_in_the_file(tmp_path):
    before = threads()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    of_gloo = threads() - before
    assert of_gloo
    try:
        with NativeRecording(tmp_path, OPS) as recording:
            torch.distributed.all_reduce(torch.ones(3) + 1)
    finally:
        torch.distributed.destroy_process_group()
    assert comes(lambda: not of_gloo & threads()), "the recording keeps the process group"
    assert recording.path == str(tmp_path / "rank0.tacho")
    with tg.open(recording.path) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    info = json.loads((tmp_path / "out.json").read_text())["distributedInfo"]
    assert (info["backend"], info["rank"], info["world_size"]) == ("gloo", 0, 1)


WORKERS = """
import multiprocessing, os, sys, time, torch
from torch.utils.data import DataLoader
from tachograph import _record
from tachograph._collect.native import NativeRecording
def work(queue, wait):
    torch.ones(3) + 1
    queue.put(os.getpid())
    time.sleep(wait)
recording = NativeRecording(sys.argv[1] + "/run.tacho", _record.OPS)
recording.start()
for batch in DataLoader(torch.zeros(8, 2), num_workers=2, multiprocessing_context="fork"): pass
fork = multiprocessing.get_context("fork")
queue = fork.Queue()
ended, terminated = [fork.Process(target=work, args=(queue, wait)) for wait in (0, 60)]
ended.start(); print(queue.get()); ended.join()
terminated.start(); print(queue.get()); terminated.terminate(); terminated.join()
recording.stop()
"""


def test_workers_that_end_close_their_files(tmp_path):
    done = subprocess.run([sys.executable, "-c", WORKERS, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    ended, terminated = done.stdout.split()
    with tg.open(tmp_path) as trace:
        notes = subprocess.run(
            [sys.executable, "-m", "tachograph", "check", str(tmp_path)], capture_output=True, text=True
        ).stdout.splitlines()
        assert "killed" not in trace.ask("ranks").to_dicts()[0]["state"]  # the process that matters was not
    processes = [line for line in notes if line.startswith("note: process ")]
    assert len(processes) == 5 and sum("stopped after" in line for line in processes) == 4
    assert any(line.startswith(f"note: process {ended}: stopped after") for line in processes)
    assert [line for line in processes if "never closed" in line] == [
        line for line in processes if line.startswith(f"note: process {terminated}:")
    ]
