"""What a campaign of random traces against HolisticTraceAnalysis 0.5.0 and the TensorBoard plugin 0.4.3 found, each by
hand on a small trace; and a short campaign of its own where the two are installed (peers.py says how)."""

import json
import pathlib
import pickle
import subprocess
import sys

import pytest

pandas = pytest.importorskip("pandas")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import shapes
import tachograph
import versus
from tachograph.hta.trace_analysis import TraceAnalysis
from test_hta_facade import same


def x(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def put(path, events, **more):
    path.write_text(json.dumps({**more, "traceEvents": events}))
    return path


# ---- found by the campaign ---------------------------------------------------------------------------------


def in_a_container():
    """Process 1 of its container, whose thread 7 launches on stream 7 of device 1: both are (1, 7)."""
    return [
        x("cpu_op", "aten::mm", 1, 7, 0, 100, **{"External id": 1}),
        x("cuda_runtime", "cudaLaunchKernel", 1, 7, 10, 5, correlation=1, **{"External id": 1}),
        x("cpu_op", "aten::add", 1, 7, 110, 40, **{"External id": 2}),
        x("cuda_runtime", "cudaLaunchKernel", 1, 7, 120, 5, correlation=2, **{"External id": 2}),
        x("kernel", "gemm", 1, 7, 30, 90, device=1, stream=7, correlation=1),
        x("gpu_user_annotation", "forward", 1, 7, 30, 90),
        x("kernel", "add", 1, 7, 140, 20, device=1, stream=7, correlation=2),
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_thread_and_a_stream_of_the_same_numbers_are_two_tracks(tmp_path, backwards):
    trace = tachograph.open(put(tmp_path / "t.json", in_a_container()[:: -1 if backwards else 1]))
    tracks = {row["kind"]: row for row in trace.ask("tracks", limit="all")}
    assert sorted(tracks) == ["cpu", "device"]
    assert [(tracks[kind]["pid"], tracks[kind]["tid"], tracks[kind]["slices"]) for kind in ("cpu", "device")] == [
        ("1", "7", 4),
        ("1", "7", 3),
    ]
    (idle,) = [row for row in trace.ask("idle", limit="all") if row["idle_ns"]]
    assert (idle["device"], idle["stream"], idle["idle_ns"]) == (1, 7, 20_000)  # 120..140
    ops = {row["name"]: row for row in trace.ask("ops", limit="all")}
    assert {name: (row["cpu_ns"], row["self_cpu_ns"], row["device_ns"]) for name, row in ops.items()} == {
        "aten::mm": (100_000, 95_000, 90_000),
        "aten::add": (40_000, 35_000, 20_000),
    }


def test_device_work_alone_on_a_track_stays_one_track(tmp_path):
    """Marks and events of unknown categories do not make it two."""
    events = [
        x("kernel", "gemm", 0, 7, 0, 10, device=0, stream=7),
        x("vendor_thing", "wait", 0, 7, 20, 5),
        {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]
    (track,) = tachograph.open(put(tmp_path / "t.json", events)).ask("tracks", limit="all")
    assert (track["kind"], track["slices"]) == ("device", 2)


@pytest.mark.parametrize("base,want", [(0, 0), (1_700_000_000_000_000_000, 1_700_000_000_000_000_000), (None, None)])
def test_a_base_of_zero_is_said(tmp_path, base, want):
    path = put(tmp_path / "t.json", in_a_container(), **({} if base is None else {"baseTimeNanoseconds": base}))
    (row,) = [row for row in tachograph.open(path).ask("overview", limit="all") if row["quantity"] == "base_ns"]
    assert row["value"] == want


def overlapping_steps():
    """Host steps 0..100, 100..200, 200..300 and, behind them, their copies on the device, each of which reaches over
    the next host step."""
    events = [x("user_annotation", f"ProfilerStep#{n + 5}", 9, 9, 100 * n, 100) for n in range(3)]
    events += [x("gpu_user_annotation", f"ProfilerStep#{n + 5}", 0, 7, 100 * n + 10, 150) for n in range(3)]
    return events + [x("cpu_op", "aten::mm", 9, 9, 100 * n + 20, 10) for n in range(3)]


def test_steps_are_those_that_are_marked(tmp_path):
    """The last mark is the device's at 210: of the host's third step, the mark at 200 stays. No row is numbered with
    it, for the copy of the second step, 110..260, comes later in the file."""
    put(tmp_path / "rank-0.json", overlapping_steps())
    t = TraceAnalysis(trace_dir=str(tmp_path), hta_compat=True)
    assert t.t.get_iterations(0) == [5, 6]
    assert t.get_profiler_steps() == [5, 6, 7]


def test_names_may_repeat_the_folder(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    put(tmp_path / "run" / "a.json", in_a_container())
    monkeypatch.chdir(tmp_path)
    for name, folder in (
        ("run/a.json", "run"),
        ("a.json", "run"),
        (str(tmp_path / "run" / "a.json"), "run"),
        ("run/a.json", ""),
    ):
        assert len(TraceAnalysis(trace_files={0: name}, trace_dir=folder).t.traces[0]) == 7


def test_annotations_of_a_device_without_work(tmp_path):
    """HTA gives a frame without rows; without annotations of the device, none."""
    host = [x("cpu_op", "aten::mm", 1, 1, 0, 5), x("user_annotation", "mine", 1, 1, 0, 9)]
    for name, more, rows in (("a.json", [x("gpu_user_annotation", "mine", 0, 7, 0, 9)], 0), ("b.json", [], None)):
        t = TraceAnalysis(trace_files=[str(put(tmp_path / name, host + more))], trace_dir="", hta_compat=True)
        for expand_names in (True, False):
            frame = t.get_gpu_kernels_with_user_annotations(0, expand_names=expand_names)
            assert (None if frame is None else len(frame)) == rows
            assert frame is None or (
                "user_annotation" in frame.columns and ("s_user_annotation" in frame.columns) == expand_names
            )


# ---- a campaign of its own ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peer():
    python = peers.found_or_made() or pytest.skip(
        "the peers are not installed: python tests/python/peers.py make, or PEERS=1"
    )

    def ask(who, folder, out):
        done = subprocess.run(
            [str(python), versus.__file__, who, str(folder), str(out)],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return pickle.loads(out.read_bytes())

    return ask


def written(root, seeds, ranks, **fixed):
    for seed in seeds:
        folder = root / ("%04d" % seed)
        folder.mkdir(parents=True)
        for rank, document in enumerate(shapes.make(seed, ranks, **fixed)):
            put(folder / ("rank-%d.json" % rank), document.pop("traceEvents"), **document)
    return root


def without_accidents(name, answer):
    """What HTA leaves to chance or to its release: an empty frame or none, the order of rows that are equal in what is
    sorted by (D11), sets of kernel types that no time was spent in (D14), and whether process ids are numbers when
    others in the file are not."""
    if isinstance(answer, dict) and "rows" not in answer:
        return {key: without_accidents(name, value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [without_accidents(name, value) for value in answer]
    if not isinstance(answer, dict):
        return answer
    rows = answer["rows"]
    if "kernel_type" in answer["columns"] and "percentage" in answer["columns"]:
        rows = [row[1:] for row in rows if row[answer["columns"].index("sum")] > 0]
    if name in ("op delays", "sequences", "idle", "idle, delay"):
        rows = sorted((row[1:] if name == "op delays" else row for row in rows), key=str)
    return {"columns": answer["columns"], "rows": rows} if rows else None


def test_hta_and_the_facade_say_the_same(peer, tmp_path):
    """Times here are so far apart that no two events begin together: what HTA makes of equal times depends on the
    machine's sort."""
    root = written(tmp_path / "traces", range(8), ranks=2, old=False)
    theirs = peer("hta", root, tmp_path / "theirs.pickle")
    subprocess.run(
        [sys.executable, versus.__file__, "tachograph.hta", str(root), str(tmp_path / "ours.pickle")], check=True
    )
    ours = pickle.loads((tmp_path / "ours.pickle").read_bytes())
    compared = 0
    for trace, answers in theirs.items():
        for name, want in answers.items():
            if isinstance(want, str) and want.startswith("failed"):
                continue
            same(without_accidents(name, want), without_accidents(name, ours[trace][name]), f"{trace}: {name}")
            compared += 1
    assert compared > 80


def modules_of(rows):
    """A module's sums stand on each of its rows."""
    found = {}
    for name, _, calls, operators, host, self_host, device, self_device, _, inner in rows or ():
        found[name] = [calls, operators, host, self_host, device, self_device]
        found.update(modules_of(inner))
    return found


def our_modules(trace):
    found = {}
    for row in trace.ask("modules", limit="all"):
        if row["depth"] is not None:
            sums = found.setdefault(row["name"], [0] * 6)
            for k, column in enumerate(("calls", "ops", "cpu_ns", "python_ns", "device_ns", "self_device_ns")):
                sums[k] += row[column] / (1 if k < 2 else 1000)
    return found


def test_the_plugin_and_we_say_the_same(peer, tmp_path):
    """In the form of 2021, the last that the release links; operators launch by their own ids, and none runs in one of
    its name: elsewhere its rules are other ones (docs/metrics.md)."""
    root = written(
        tmp_path / "traces",
        range(100, 112),
        ranks=1,
        old=True,
        python=True,
        lost_calls=0,
        lost_work=0,
        device_ranges=False,
    )
    theirs = peer("plugin", root, tmp_path / "theirs.pickle")
    for name, want in theirs.items():
        trace = tachograph.open(root / name / "rank-0.json")
        if want["module_stats"]:  # else there are none, which is refused
            assert our_modules(trace) == modules_of(want["module_stats"]), name
        kernels = {
            row["name"]: row
            for row in trace.ask("kernels", limit="all", tensor="plugin")
            if row["category"] == "Kernel"
        }
        table = {row[0]: row[1:4] for row in want["kernel_table"]["data"]["rows"]}
        assert {
            n: ["Yes" if k["tensor_cores"] else "No", k["calls"], round(k["total_ns"] / 1000)]
            for n, k in kernels.items()
        } == table, name
        ops = {
            row["name"]: [row["calls"], round(row["device_ns"] / 1000), round(row["cpu_ns"] / 1000)]
            for row in trace.ask("ops", limit="all")
        }
        assert ops == {
            row["name"]: [row["calls"], row["device_total_duration"], row["host_total_duration"]]
            for row in want["operation_table_by_name"]["data"]
        }, name
