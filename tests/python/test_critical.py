"""critical_path and cupti against a slow reference, and what must not change with how a run is written down."""

import json
import pathlib
import tempfile

import pytest
import reference_critical as reference
from hypothesis import HealthCheck, assume, given, settings, strategies as st

tachograph = pytest.importorskip("tachograph")
SETTINGS = settings(max_examples=30, deadline=None, print_blob=False, suppress_health_check=list(HealthCheck))
RUN = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "size": st.integers(2, 60),
        "span": st.sampled_from((100_000, 1_000_000, 40_000_000)),
        "threads": st.integers(1, 3),
        "devices": st.integers(1, 2),
        "recorded": st.booleans(),
    }
)


class Written:
    def __init__(self, text):
        self.text = text

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "run.json"
        path.write_text(self.text, encoding="utf-8")
        self.trace = tachograph.open(str(path))
        return lambda question="critical_path", **args: self.trace.ask(question, **args).to_dicts()

    def __exit__(self, *_):
        self.trace = None
        self.folder.cleanup()


def runs(made):
    """Events of a recording in which something takes time: without, there is no path."""
    events = reference.Run(**made).events
    assume(reference.Graph(events).longest() > 0)
    return events


def slice_map(ask, events):
    """Number of a slice → position of the event: no two start together."""
    starts = {e["start"]: i for i, e in enumerate(events)}
    return {r["id"]: starts[r["start_ns"]] for r in ask("events", by="slice")}


@SETTINGS
@given(RUN)
def test_the_graph_and_its_longest_path(made):
    events = runs(made)
    graph = reference.Graph(events)
    with Written(reference.document(events)) as ask:
        slices = slice_map(ask, events)
        rows = ask(by="edge", edges="all")
        longest = graph.longest()
        got = {}
        for r in rows:
            pair = tuple((slices[r[side + "_event"]], r[side + "_end"]) for side in ("from", "to"))
            assert pair not in got
            got[pair] = (r["kind"], r["weight_ns"], slices[r["event"]] if r["event"] is not None else None)
        want = {pair: (kind, graph.weight(pair), event) for pair, (kind, _, event) in graph.edges.items()}
        assert got == want
        path = [r for r in rows if r["critical"]]
        assert sum(r["weight_ns"] for r in path) == longest
        for before, after in zip(path, path[1:]):
            assert (before["to_event"], before["to_end"]) == (after["from_event"], after["from_end"])


@SETTINGS
@given(RUN)
def test_all_tables_tell_of_one_path(made):
    events = runs(made)
    with Written(reference.document(events)) as ask:
        path = ask(by="edge")
        length = sum(r["weight_ns"] for r in path)
        (whole,) = ask(by="rank")
        nodes = {(r[s + "_event"], r[s + "_end"]) for r in path for s in ("from", "to")}
        assert (whole["weight_ns"], whole["edges"], whole["nodes"], whole["events"]) == (
            length,
            len(path),
            len(nodes),
            len({n[0] for n in nodes}),
        )
        for by in ("op", "bound", "kind"):
            assert sum(r["weight_ns"] for r in ask(by=by)) == length
        assert sum(r["edges"] for r in ask(by="kind")) == sum(r["edges"] for r in ask(by="bound")) == len(path)
        assert {r["event"] for r in ask(by="event") if r["critical"]} == {n[0] for n in nodes}
        booked = sum(r["weight_ns"] for r in path if r["event"] is not None)
        assert sum(r["weight_ns"] for r in ask(by="event")) == booked


@SETTINGS
@given(RUN, st.sampled_from((1, 1000, 123_456_789)), st.randoms(use_true_random=False))
def test_what_does_not_matter(made, shift, rnd):
    """When it ran, what its streams are called, and in which order its events were written."""
    events = runs(made)
    order = list(range(len(events)))
    rnd.shuffle(order)

    def answer(**how):
        with Written(reference.document(events, **how)) as ask:
            return [
                (r["name"], r["kind"], r["bound_by"], r["weight_ns"], r["start_ns"] - how.get("shift", 0))
                for r in ask(by="edge")
            ]

    plain = answer()
    assert answer(shift=shift) == plain
    assert answer(stream=lambda s: s + 5) == plain
    length = sum(r[3] for r in plain)
    assert sum(r[3] for r in answer(order=order)) == length


@SETTINGS
@given(RUN)
def test_twice_the_time_is_twice_the_path(made):
    events = runs({**made, "span": 100_000})  # far below the limit of a delay between kernels
    with Written(reference.document(events)) as ask:
        plain = [(r["kind"], r["from_event"], r["to_event"], 2 * r["weight_ns"]) for r in ask(by="edge")]
    with Written(reference.document(events, scale=2)) as ask:
        assert [(r["kind"], r["from_event"], r["to_event"], r["weight_ns"]) for r in ask(by="edge")] == plain


# ---- by hand -----------------------------------------------------------------------------------------------


def event(cat, name, start, end, pid=1, tid=1, **args):
    return {"cat": cat, "name": name, "start": start, "end": end, "pid": pid, "tid": tid, "args": args}


def kernel(name, start, end, number, stream=7, device=0):
    return event("kernel", name, start, end, device, stream, device=device, stream=stream, correlation=number)


def test_a_graph_launch_has_all_its_kernels():
    """Call at 0, kernels of 10, 20 and 30 µs, 1 µs apart: launch 5, work 60, delays 2. HTA knows only the last kernel:
    36 + 30."""
    events = [
        event("cuda_runtime", "cudaGraphLaunch", 0, 4000, correlation=1),
        kernel("a", 5000, 15000, 1),
        kernel("b", 16000, 36000, 1),
        kernel("c", 37000, 67000, 1),
    ]
    with Written(reference.document(events)) as ask:
        assert [(r["kind"], r["name"], r["weight_ns"]) for r in ask(by="edge")] == [
            ("launch_delay", None, 5000),
            ("operator", "a", 10000),
            ("kernel_delay", "a", 1000),
            ("operator", "b", 20000),
            ("kernel_delay", "b", 1000),
            ("operator", "c", 30000),
        ]


def test_streams_of_two_devices_are_two():
    """Both devices call their stream 7; each is idle when its kernel is launched, so neither waits for the other."""
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 1000, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 2000, 3000, correlation=2),
        kernel("first", 1500, 90000, 1),
        kernel("second", 4000, 50000, 2, device=1),
    ]
    with Written(reference.document(events)) as ask:
        assert {r["kind"]: r["graph_edges"] for r in ask(by="kind")} == {
            "operator": 4,
            "dependency": 1,
            "launch_delay": 2,
        }


def test_a_lock_is_handed_over():
    """Two launches overlap: the second thread's returns 3 µs after the first's; these 3 are its own, the wait before is
    the other's."""
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 1000, 11000, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 2000, 14000, tid=2, correlation=2),
    ]
    with Written(reference.document(events)) as ask:
        assert [(r["from_event"], r["to_event"], r["weight_ns"]) for r in ask(by="edge")] == [
            (0, 0, 10000),
            (0, 1, 3000),
        ]


def test_annotations_are_counted_on_the_host_by_start_the_longer_one_first():
    """Instance 0 is the outer one of the two that begin together, whatever their order in the file; a device's copy
    of them is no instance."""
    host = [
        event("user_annotation", "phase", 1000, 3000),
        event("user_annotation", "phase", 1000, 9000),
        event("cpu_op", "aten::a", 1500, 2500),
        event("cpu_op", "aten::b", 5000, 7000),
    ]
    device = event("gpu_user_annotation", "phase", 0, 500, 0, 7, device=0, stream=7)
    for events in ([device, *host], [device, host[1], host[0], *host[2:]], [*host, device]):
        with Written(reference.document(events)) as ask:
            assert [r["name"] for r in ask(by="edge", annotation="phase") if r["name"]] == ["aten::a", "aten::b"]
            assert [r["name"] for r in ask(by="edge", annotation="phase", instance="1") if r["name"]] == ["aten::a"]
            with pytest.raises(tachograph.TachographError, match="2 events of the host"):
                ask(by="edge", annotation="phase", instance="2")


def test_a_window_by_annotation_and_by_step():
    events = [
        event("user_annotation", "ProfilerStep#4", 0, 10000),
        event("cpu_op", "aten::a", 1000, 4000),
        event("user_annotation", "ProfilerStep#5", 10000, 20000),
        event("cpu_op", "aten::b", 11000, 16000),
        event("user_annotation", "ProfilerStep#6", 20000, 30000),
        event("cpu_op", "aten::c", 21000, 28000),
    ]
    with Written(reference.document(events)) as ask:

        def names(**how):
            return [r["name"] for r in ask(by="edge", **how) if r["name"]]

        assert names() == ["aten::a", "aten::b", "aten::c"]
        assert names(annotation="ProfilerStep") == ["aten::a"]
        assert names(annotation="ProfilerStep", instance="1") == ["aten::b"] == names(step="5")
        assert names(annotation="ProfilerStep", instance="1:2") == ["aten::b", "aten::c"] == names(step="5:6")
        assert names(annotation="Step#6", data_load_events="aten::c") == ["aten::c"]
        assert ask(by="bound", annotation="Step#6", data_load_events="aten::c")[0]["bound_by"] == "data_loading"
        for wrong, why in (
            ({"annotation": "Nothing"}, "0 events"),
            ({"annotation": "ProfilerStep", "instance": "7"}, "instance 7"),
            ({"instance": "2:1"}, "instance=2:1"),
            ({"edges": "all", "by": "op"}, "edges=all"),
            ({"rules": "hta", "step": "5"}, "step= is for rules=exact"),
        ):
            with pytest.raises(tachograph.TachographError, match=why):
                ask(**wrong)


def test_a_circle_of_disagreeing_clocks_is_cut():
    """The kernel of a launch seems to run before the call that waited for the kernel before it: only edges forward in
    time are left."""
    events = [
        event("cuda_runtime", "cudaStreamSynchronize", 1000, 5000, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 6000, 7000, correlation=2),
        kernel("early", 2000, 3000, 2),
        event("cuda_sync", "Stream Sync", 1500, 4000, 0, 7, device=0, stream=7, correlation=1),
    ]
    with Written(reference.document(events)) as ask:
        assert {(r["kind"], r["name"]) for r in ask(by="edge", edges="all")} == {
            ("operator", "cudaStreamSynchronize"),
            ("dependency", None),
            ("operator", "cudaLaunchKernel"),
            ("operator", "early"),
            ("sync_dependency", None),
        }
        with pytest.raises(tachograph.TachographError, match="circle"):
            ask(rules="hta", launch_edges="1")


def test_waiting_alone_is_no_path():
    """A call that waits, for work launched before the recording: all its time is the device's."""
    events = [
        event("cuda_runtime", "cudaStreamSynchronize", 1000, 5000, correlation=1),
        event("cuda_sync", "Stream Sync", 1500, 4000, 0, 7, device=0, stream=7, correlation=1),
    ]
    with Written(reference.document(events)) as ask:
        with pytest.raises(tachograph.TachographError, match="nothing .* takes time"):
            ask()


def test_overlay(tmp_path, tachograph):
    """Path: op 2, launch 10, kernel 20; the second operator ends earlier and is not on it."""
    events = [
        event("cpu_op", "aten::mm", 1000, 9000),
        event("cuda_runtime", "cudaLaunchKernel", 3000, 5000, correlation=1),
        kernel("gemm", 13000, 33000, 1),
        event("cpu_op", "aten::late", 10000, 12000, tid=2),
        event("user_annotation", "note", 0, 40000),
    ]
    path, out = tmp_path / "run.json", tmp_path / "out.json"
    path.write_text(reference.document(events), encoding="utf-8")
    for how, marked in (
        ("path", {"aten::mm", "cudaLaunchKernel", "gemm"}),
        ("only", {"aten::mm", "cudaLaunchKernel", "gemm"}),
    ):
        done = tachograph("export", path, "--to", "chrome", "--critical", how, "-o", out)
        assert done.returncode == 0, done.stderr
        written = json.loads(out.read_text())["traceEvents"]
        slices = {e["name"]: e for e in written if e["ph"] == "X"}
        assert {n for n, e in slices.items() if e.get("args", {}).get("critical") == 1} == marked
        assert slices.keys() == (marked | {"note"} if how == "only" else marked | {"note", "aten::late"})
        arrows = [e for e in written if e.get("cat") == "critical_path"]
        assert [(e["ph"], e["ts"], e["args"]) for e in arrows] == [
            (ph, ts, {"weight": 10, "critical": True, "type": "critical_path_kernel_launch_delay"})
            for ph, ts in (("s", 3), ("f", 13))
        ]
    done = tachograph("export", path, "--to", "chrome", "--critical", "some")
    assert done.returncode == 2 and "critical=some is unknown" in done.stderr


# ---- counters ----------------------------------------------------------------------------------------------

FFMA, FADD = ("smsp__sass_thread_inst_executed_op_%s_pred_on.sum" % k for k in ("ffma", "fadd"))


def test_counters_and_their_operators():
    events = [
        event("cpu_op", "aten::linear", 0, 9000),
        event("cpu_op", "aten::addmm", 1000, 8000),
        event("cuda_runtime", "cudaLaunchKernel", 2000, 3000, correlation=1),
        event("cpu_op", "aten::relu", 10000, 14000),
        event("cuda_runtime", "cudaLaunchKernel", 11000, 12000, correlation=2),
        event("cuda_profiler_range", "gemm", 50000, 60000, 0, 0, **{FFMA: 100, FADD: 7, "dram__bytes.sum": 4096}),
        event("cuda_profiler_range", "relu_kernel", 60000, 70000, 0, 0, **{FFMA: 0, FADD: 5, "dram__bytes.sum": 1024}),
    ]
    with Written(reference.document(events)) as ask:
        assert [
            (r["name"], r["top_level_op"], r["bottom_level_op"], r["op_stack"], r["flops"]) for r in ask("cupti")
        ] == [
            ("gemm", "aten::linear", "aten::addmm", "aten::linear > aten::addmm", 207),
            ("relu_kernel", "aten::relu", "aten::relu", "aten::relu", 5),
        ]
        assert {(r["name"], r["counter"]): (r["value"], r["flops"]) for r in ask("cupti", by="counter")} == {
            ("gemm", FFMA): (100, 200),
            ("gemm", FADD): (7, 7),
            ("gemm", "dram__bytes.sum"): (4096, None),
            ("relu_kernel", FFMA): (0, 0),
            ("relu_kernel", FADD): (5, 5),
            ("relu_kernel", "dram__bytes.sum"): (1024, None),
        }
        assert [(r["counter"], r["value"], r["flops"], r["ranges"]) for r in ask("cupti", by="total")] == [
            (FFMA, 100, 200, 2),
            (FADD, 12, 12, 2),
            ("dram__bytes.sum", 5120, None, 2),
        ]
        assert {(r["bottom_level_op"], r["counter"]): r["flops"] for r in ask("cupti", by="op")} == {
            ("aten::addmm", FFMA): 200,
            ("aten::addmm", FADD): 7,
            ("aten::addmm", "dram__bytes.sum"): None,
            ("aten::relu", FFMA): 0,
            ("aten::relu", FADD): 5,
            ("aten::relu", "dram__bytes.sum"): None,
        }


def test_counters_without_a_launch_each():
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 2000, 3000, correlation=1),
        event("cuda_profiler_range", "a", 5000, 6000, 0, 0, **{FADD: 1}),
        event("cuda_profiler_range", "b", 6000, 7000, 0, 0, **{FADD: 2}),
    ]
    with Written(reference.document(events)) as ask:
        assert [(r["name"], r["op_stack"], r["flops"]) for r in ask("cupti")] == [("a", None, 1), ("b", None, 2)]
