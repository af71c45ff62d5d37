"""tachograph.hta: the calls of HolisticTraceAnalysis' tutorials, with the import changed, on traces of our own;
signatures, columns, kinds and figures of the frames; and, where the real one is installed (test_peers.py says how), its
frames beside ours."""

import gzip
import inspect
import json
import math
import pathlib
import pickle
import subprocess
import sys

import pytest

pandas = pytest.importorskip("pandas")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hta_calls
import peers
from tachograph.hta import LabeledTrace, MemoryAnalysis, TraceDiff
from tachograph.hta.trace_analysis import TraceAnalysis
from test_peers import training

REQUIRED = inspect.Parameter.empty
SIGNATURES = {  # arguments in order, with defaults, of release 0.6.1
    "__init__": [("trace_files", None), ("trace_dir", "/tmp/trace"), ("include_last_profiler_step", False)],
    "get_temporal_breakdown": [("visualize", True)],
    "get_gpu_kernel_breakdown": [
        ("visualize", True),
        ("duration_ratio", 0.8),
        ("num_kernels", 10),
        ("include_memory_kernels", True),
        ("image_renderer", ""),
    ],
    "get_comm_comp_overlap": [("visualize", True)],
    "get_idle_time_breakdown": [
        ("ranks", None),
        ("streams", None),
        ("visualize", True),
        ("visualize_pctg", True),
        ("show_idle_interval_stats", False),
        ("consecutive_kernel_delay", 30),
    ],
    "get_queue_length_time_series": [("ranks", None)],
    "get_queue_length_summary": [("ranks", None)],
    "get_queue_length_summary_from_time_series": [("queue_length_dict", REQUIRED)],
    "get_time_spent_blocked_on_full_queue": [("queue_length_dict", REQUIRED), ("max_queue_length", 1024)],
    "get_memory_bw_time_series": [("ranks", None)],
    "get_memory_bw_summary": [("ranks", None)],
    "generate_trace_with_counters": [("time_series", None), ("ranks", None), ("output_suffix", "_with_counters")],
    "get_cuda_kernel_launch_stats": [
        ("ranks", None),
        ("runtime_cutoff", 50),
        ("launch_delay_cutoff", 100),
        ("include_memory_events", True),
        ("visualize", True),
    ],
    "get_aten_op_kernels_and_delay": [("ranks", None), ("sort_by", None)],
    "get_frequent_cuda_kernel_sequences": [
        ("operator_name", REQUIRED),
        ("output_dir", REQUIRED),
        ("min_pattern_len", 3),
        ("rank", 0),
        ("top_k", 5),
        ("visualize", False),
        ("compress_other_kernels", True),
    ],
    "get_gpu_user_annotation_breakdown": [
        ("use_gpu_annotation", True),
        ("visualize", True),
        ("duration_ratio", 0.8),
        ("num_kernels", 1000),
        ("allowlist_patterns", None),
        ("image_renderer", None),
    ],
    "get_gpu_kernels_with_user_annotations": [("rank", REQUIRED), ("expand_names", True), ("shorten_names", True)],
    "get_profiler_steps": [],
    "get_potential_stragglers": [
        ("profiler_steps", None),
        ("num_candidates", 2),
        ("visualize", False),
        ("straggler_identification_impl", None),
    ],
    "get_cupti_counter_data_with_operators": [("ranks", None)],
    "critical_path_analysis": [
        ("rank", REQUIRED),
        ("annotation", REQUIRED),
        ("instance_id", REQUIRED),
        ("data_load_events", None),
    ],
    "overlay_critical_path_analysis": [
        ("rank", REQUIRED),
        ("critical_path_graph", REQUIRED),
        ("output_dir", REQUIRED),
        ("only_show_critical_events", True),
        ("show_all_edges", False),
    ],
}


def arguments(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values() if p.name != "self"]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    want = SIGNATURES[name]
    assert arguments(getattr(TraceAnalysis, name))[: len(want)] == want


def test_no_public_method_beside_them():
    assert {n for n, _ in inspect.getmembers(TraceAnalysis, inspect.isfunction) if not n.startswith("_")} == set(
        SIGNATURES
    ) - {"__init__"}


@pytest.mark.parametrize(
    "function,want",
    [
        (
            TraceDiff.compare_traces,
            [
                "control",
                "test",
                "control_rank",
                "test_rank",
                "control_iteration",
                "test_iteration",
                "device_type",
                "use_short_name",
            ],
        ),
        (
            TraceDiff.ops_diff,
            ["control", "test", "control_rank", "test_rank", "control_iteration", "test_iteration", "device_type"],
        ),
        (TraceDiff.visualize_counts_diff, ["df", "show_image", "export_image_path"]),
        (TraceDiff.visualize_duration_diff, ["df", "show_image", "export_image_path"]),
        (LabeledTrace.__init__, ["label", "t", "trace_dir"]),
        (LabeledTrace.extract_ops, ["rank", "iteration", "device_type"]),
        (LabeledTrace.get_ops_summary, ["ops"]),
        (MemoryAnalysis.__init__, ["path"]),
        (MemoryAnalysis.plot_memory_timeline, ["save_graph"]),
    ],
)
def test_signatures_of_the_others(function, want):
    assert [name for name, _ in arguments(function)][: len(want)] == want


def test_pandas_waits_until_a_frame_is_made():
    code = "import sys; from tachograph.hta.trace_analysis import TraceAnalysis; from tachograph.hta import TraceDiff, MemoryAnalysis; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- one small trace of which every figure can be worked out -----------------------------------------------


def slice_of(cat, name, ts, dur, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(
    events, ts, dur, correlation, kernel, start, length, stream=7, call="cudaLaunchKernel", cat="kernel", **args
):
    events.append(slice_of("cuda_runtime", call, ts, dur, correlation=correlation))
    events.append(
        slice_of(
            cat, kernel, start, length, pid=0, tid=stream, device=0, stream=stream, correlation=correlation, **args
        )
    )


def small(rank=0):
    """Two steps. Kernels on stream 7 at 20..60 and 70.5..100.5, a collective on 20 at 50..80, a copy on 7 at 110..115;
    the same 200 µs later."""
    events = []
    for step in range(2):
        t, c = 1000 + 200 * step, 10 * (step + 1)
        events.append(slice_of("user_annotation", f"ProfilerStep#{step + 5}", t, 190))
        events.append(slice_of("cpu_op", "aten::mm", t + 2, 40, **{"External id": c, "Input Dims": [[2, 3], [3, 4]]}))
        launch(events, t + 5, 10, c + 1, "void gemm<float>(int)", t + 20, 40)
        launch(events, t + 18, 5, c + 2, "relu", t + 70.5, 30)
        events.append(slice_of("cpu_op", "nccl:all_reduce", t + 44, 8))
        launch(events, t + 45, 4, c + 3, "ncclKernel_AllReduce", t + 50, 30, stream=20)
        events.append(slice_of("cpu_op", "aten::copy_", t + 100, 20))
        launch(
            events,
            t + 104,
            4,
            c + 4,
            "Memcpy DtoH (Device -> Pageable)",
            t + 110,
            5,
            call="cudaMemcpyAsync",
            cat="gpu_memcpy",
            bytes=1000,
            **{"memory bandwidth (GB/s)": 0.2},
        )
        events.append(slice_of("gpu_user_annotation", "forward", t + 20, 80.5, pid=0, tid=7, stream=7))
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 0,
        "traceEvents": events,
    }


def written(folder, document, name="rank-0.json"):
    path = folder / name
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def analysis(tmp_path):
    return TraceAnalysis(trace_files={0: written(tmp_path, small())}, trace_dir=str(tmp_path))


def test_temporal_breakdown(analysis):
    # busy per step: 20..100.5 and 110..115; between the steps 115..220. compute 70 a step, idle 9.5 + 9.5 + 105
    frame = analysis.get_temporal_breakdown(visualize=False)
    assert frame.to_dict("records") == [
        {
            "rank": 0,
            "idle_time(us)": 124.0,
            "compute_time(us)": 140.0,
            "non_compute_time(us)": 31.0,
            "kernel_time(us)": 295.0,
            "idle_time_pctg": 42.03,
            "compute_time_pctg": 47.46,
            "non_compute_time_pctg": 10.51,
        }
    ]


def test_temporal_breakdown_as_hta_counts(tmp_path):
    # the last step is left out; the annotation on stream 7 (20..100, its end rounded down) counts as a compute kernel
    # there
    frame = TraceAnalysis(
        trace_files=[written(tmp_path, small())], trace_dir="", hta_compat=True
    ).get_temporal_breakdown(False)
    assert frame.iloc[0].tolist()[:5] == [0, 10.0, 80.0, 5.0, 95.0]


def test_the_last_step_stays_when_asked_for(folder):
    """Every call takes it; HTA keeps whatever the host did, which two steps more than without show."""
    counts = []
    for last in (False, True):
        t = TraceAnalysis(trace_dir=folder, include_last_profiler_step=last, hta_compat=True)
        launches = len(t.get_cuda_kernel_launch_stats([0], visualize=False)[0])
        ops = int(t.get_aten_op_kernels_and_delay([0])[0]["occurrence_count"].sum())
        steps = len(t.get_gpu_user_annotation_breakdown(False, False).query("rank == 0"))
        path = t.critical_path_analysis(0, "", None)[0].number_of_nodes()
        counts.append((launches, ops, steps, path, len(t.t.traces[0])))
        assert t.get_profiler_steps() == ([3, 4, 5] if last else [3, 4])
    assert counts[0][2:3] == (2,) and counts[1][2:3] == (3,) and all(a < b for a, b in zip(*counts))


def test_kernel_breakdown(analysis):
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1)
    assert types.to_dict("records") == [
        {"kernel_type": "COMPUTATION", "sum": 101.0 + 0.0, "percentage": 59.1},
        {"kernel_type": "COMPUTATION overlapping COMMUNICATION", "sum": 39.0, "percentage": 22.8},
        {"kernel_type": "COMMUNICATION", "sum": 21.0, "percentage": 12.3},
        {"kernel_type": "MEMORY", "sum": 10.0, "percentage": 5.8},
    ]
    compute = kernels[kernels["kernel_type"] == "COMPUTATION"].to_dict("records")
    assert compute == [
        {
            "name": "others",
            "sum (us)": 60.0,
            "max (us)": 30.0,
            "min (us)": 30.0,
            "stddev": 0.0,
            "mean (us)": 30.0,
            "kernel_type": "COMPUTATION",
            "rank": 0,
        },
        {
            "name": "void gemm<float>(int)",
            "sum (us)": 80.0,
            "max (us)": 40.0,
            "min (us)": 40.0,
            "stddev": 0.0,
            "mean (us)": 40.0,
            "kernel_type": "COMPUTATION",
            "rank": 0,
        },
    ]


def test_kernels_put_together_as_hta_does(tmp_path):
    # names 80, 60, 40 (only b), … : above the limit each name has its sum for maximum and mean
    events = []
    for i, (name, durations) in enumerate({"a": (10, 30), "b": (7, 8), "c": (1, 2, 3)}.items()):
        for k, dur in enumerate(durations):
            launch(events, 100 * i + 10 * k, 1, 10 * i + k + 1, name, 1000 + 100 * i + 35 * k, dur)
    path = written(tmp_path, {"traceEvents": events})
    theirs = TraceAnalysis([path], "", hta_compat=True).get_gpu_kernel_breakdown(False, num_kernels=2)[1]
    ours = TraceAnalysis([path], "").get_gpu_kernel_breakdown(False, num_kernels=2)[1]
    # running sums 40, 55, 61; their 0.8 quantile is 58.6
    columns = ["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"]
    assert theirs[columns].values.tolist() == [
        ["a", 40, 40, 40, 0, 40],
        ["b", 15, 15, 15, 0, 15],
        ["others", 6, 6, 6, 0, 6],
    ]
    assert ours[columns].round(6).values.tolist() == [
        ["a", 40, 30, 10, 14.142136, 20],
        ["b", 15, 8, 7, 0.707107, 7.5],
        ["others", 6, 3, 1, 1, 2],
    ]


def test_overlap(analysis):
    # of 30 µs of the collective 10 under gemm (50..60) and 9.5 under relu (70.5..80)
    assert analysis.get_comm_comp_overlap(False).to_dict("records") == [{"rank": 0, "comp_comm_overlap_pctg": 65.0}]


def test_idle_time(analysis):
    frame, stats = analysis.get_idle_time_breakdown(ranks=[0], visualize=False, show_idle_interval_stats=True)
    assert list(frame.columns) == ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"]
    of_7 = frame[frame["stream"] == 7].set_index("idle_category")["idle_time"].to_dict()
    # gemm to relu: launched before, 10.5 later; relu to copy: launched at 104, after 100.5; copy to the next step's
    # gemm: launched at 205
    assert of_7["kernel_wait"] == 21.0 and of_7["host_wait"] == 9.5 + 105 + 9.5
    assert stats.loc["kernel_wait"]["count"] == 2 and stats.loc["kernel_wait"]["mean"] == 10.5


def test_queue(analysis):
    series = analysis.get_queue_length_time_series()
    of_7 = series[0][series[0]["stream"] == 7]
    assert of_7["ts"].tolist()[:4] == [5, 18, 20, 70.5] and of_7["queue_length"].tolist()[:4] == [1, 2, 1, 0]
    assert set(of_7["pid"]) == {0} and set(of_7["tid"]) == {7}
    summary = analysis.get_queue_length_summary()
    assert summary.index.names == ["rank", "stream"] and summary.loc[(0, 7), ("queue_length", "max")] == 2
    from_series = analysis.get_queue_length_summary_from_time_series(series)
    pandas.testing.assert_frame_equal(summary, from_series, check_index_type=False)
    blocked = analysis.get_time_spent_blocked_on_full_queue(series, max_queue_length=2)
    assert blocked.to_dict("records") == [
        {
            "rank": 0,
            "stream": 7,
            "duration_at_max_queue_length": 4.0,
            "relative_duration_at_max_queue_length": 4.0 / 310,
        }
    ]
    never = analysis.get_time_spent_blocked_on_full_queue(series)
    assert len(never) == 0 and list(never.columns) == list(blocked.columns)


def test_streams_and_correlations_have_the_narrowest_type(analysis):
    idle, intervals = analysis.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)
    series = analysis.get_queue_length_time_series()
    blocked = analysis.get_time_spent_blocked_on_full_queue(series, max_queue_length=2)
    launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    assert [
        str(t)
        for t in (idle["stream"].dtype, intervals["stream"].dtype, series[0]["stream"].dtype, blocked["stream"].dtype)
    ] == ["int8"] * 4
    assert str(launches["correlation"].dtype) == "int8" and series[0]["queue_length"].dtype == "int64"


@pytest.mark.parametrize("stream,kind", [(7, "int8"), (300, "int16"), (1 << 20, "int32"), (1 << 40, "int64")])
def test_queue_of_streams_of_any_number(tmp_path, stream, kind):
    events = [
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 11,
            "tid": 12,
            "ts": 0,
            "dur": 1,
            "args": {"correlation": 5},
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "pid": 0,
            "tid": stream,
            "ts": 4,
            "dur": 2,
            "args": {"correlation": 5, "device": 0, "stream": stream},
        },
    ]
    (tmp_path / "one.json").write_text(json.dumps({"traceEvents": events}))
    frame = TraceAnalysis(trace_files={0: "one.json"}, trace_dir=str(tmp_path)).get_queue_length_time_series()[0]
    assert frame[["pid", "tid", "stream", "queue_length"]].values.tolist() == [
        [0, stream, stream, 1],
        [0, stream, stream, 0],
    ]
    assert str(frame["stream"].dtype) == kind


def test_bandwidth(analysis):
    series = analysis.get_memory_bw_time_series()[0]
    assert series.values.tolist() == [
        [110.0, 0, "Memcpy DtoH", 0.2],
        [115.0, 0, "Memcpy DtoH", 0.0],
        [310.0, 0, "Memcpy DtoH", 0.2],
        [315.0, 0, "Memcpy DtoH", 0.0],
    ]
    summary = analysis.get_memory_bw_summary()
    assert summary.loc[(0, "Memcpy DtoH"), ("memory_bw_gbps", "count")] == 2 and summary.index.names == ["rank", "name"]


def test_launches(analysis):
    frame = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    first = frame[frame["correlation"] == 11].to_dict("records")
    assert first == [{"correlation": 11, "cpu_duration": 10.0, "gpu_duration": 40.0, "launch_delay": 5.0}]
    assert (
        len(frame) == 8
        and len(analysis.get_cuda_kernel_launch_stats(include_memory_events=False, visualize=False)[0]) == 6
    )


def test_annotations(analysis):
    gpu = analysis.get_gpu_user_annotation_breakdown(visualize=False)
    assert gpu.values.tolist() == [["forward", 161.0, 80.5, 80.5, 0.0, 80.5, 0]]
    cpu = analysis.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
    assert cpu["name"].tolist() == ["ProfilerStep#5", "ProfilerStep#6"]
    kernels = analysis.get_gpu_kernels_with_user_annotations(0)
    named = dict(zip(kernels["s_name"], kernels["s_user_annotation"]))
    assert named == {
        "gemm": "forward",
        "relu": "forward",
        "ncclKernel_AllReduce": "",
        "Memcpy DtoH (Device -> Pageable)": "",
    }
    assert len(kernels) == 8


def test_trace_frames(analysis):
    frame = analysis.t.traces[0]
    assert analysis.t.symbol_table.sym_table[frame["name"].iloc[0]] == "ProfilerStep#5"
    mm = frame[frame["name"] == analysis.t.symbol_table.sym_index["aten::mm"]].iloc[0]
    assert (mm["ts"], mm["dur"], mm["end"], mm["input_dims"], mm["iteration"], mm["stream"]) == (
        2.0,
        40.0,
        42.0,
        [[2, 3], [3, 4]],
        5,
        -1,
    )
    relu = frame[frame["correlation"] == 12]
    assert relu["index_correlation"].tolist() == relu["index"].tolist()[::-1]
    assert analysis.get_profiler_steps() == [5, 6] and analysis.t.get_trace_duration(0) == 310.0
    assert analysis.t.get_trace_start_unixtime_ns(0) == 1000_000


def test_call_graph(analysis):
    from tachograph.hta.common.trace_call_graph import CallGraph

    graph = CallGraph(analysis.t)
    frame = analysis.t.traces[0]
    step, mm = (
        frame[frame["name"] == analysis.t.symbol_table.sym_index["ProfilerStep#5"]].iloc[0],
        frame[frame["dur"] == 40].iloc[0],
    )
    assert (step["parent"], step["depth"], mm["parent"], mm["depth"], mm["height"]) == (-1, 0, step["index"], 1, 2)
    assert (
        mm["num_kernels"],
        mm["kernel_dur_sum"],
        mm["first_kernel_start"],
        mm["last_kernel_end"],
        mm["kernel_span"],
    ) == (2, 70, 20, 100.5, 80.5)
    below = graph.get_stack_of_node(int(mm["index"]), skip_ancestors=True)
    assert set(analysis.t.symbol_table.get_symbol_names(below["name"]).values()) >= {
        "aten::mm",
        "relu",
        "cudaLaunchKernel",
        "void gemm<float>(int)",
    }
    assert len(graph.get_gpu_kernels()) == 8 and graph.get_node_attributes(int(mm["index"]))["depth"] == 1


def test_filters(analysis):
    from tachograph.hta.common.trace_filter import (
        CompositeFilter,
        CPUOperatorFilter,
        FirstIterationFilter,
        GPUKernelFilter,
        IterationFilter,
        MemCopyEventFilter,
        NameFilter,
        QueryFilter,
        TimeRangeFilter,
    )

    frame, symbols = analysis.t.traces[0], analysis.t.symbol_table

    def left(chosen):
        return sorted(symbols.sym_table[n] for n in chosen(frame, symbols)["name"])

    assert left(NameFilter("aten::")) == ["aten::copy_", "aten::copy_", "aten::mm", "aten::mm"]
    assert left(MemCopyEventFilter("Memcpy DtoH")) == ["Memcpy DtoH (Device -> Pageable)"] * 2
    assert left(TimeRangeFilter((50, 101))) == ["ncclKernel_AllReduce", "relu"]
    assert left(CompositeFilter([FirstIterationFilter(), GPUKernelFilter(), QueryFilter("stream == 7")])) == [
        "Memcpy DtoH (Device -> Pageable)",
        "relu",
        "void gemm<float>(int)",
    ]
    assert len(CPUOperatorFilter()(frame, symbols)) + len(GPUKernelFilter()(frame, symbols)) == len(frame)
    assert len(IterationFilter([5, 6])(frame)) == len(frame) - 2  # the device's annotations belong to no call


def test_what_a_trace_lacks(tmp_path):
    document = {"traceEvents": [slice_of("cpu_op", "aten::mm", 0, 5)]}
    for compat in (False, True):
        t = TraceAnalysis([written(tmp_path, document)], "", hta_compat=compat)
        assert (
            len(t.get_temporal_breakdown(False)) == 0 and "kernel_time(us)" in t.get_temporal_breakdown(False).columns
        )
        types, kernels = t.get_gpu_kernel_breakdown(False)
        assert len(types) == len(kernels) == 0 and list(types.columns) == ["kernel_type", "sum", "percentage"]
        assert len(t.get_idle_time_breakdown(visualize=False)[0]) == 0
        assert math.isnan(t.get_comm_comp_overlap(False)["comp_comm_overlap_pctg"][0])
        assert (
            t.get_queue_length_summary() is None
            and t.get_memory_bw_summary() is None
            and t.get_queue_length_time_series() == {}
        )
        assert len(t.get_cuda_kernel_launch_stats(visualize=False)[0]) == 0
        assert (
            t.get_gpu_user_annotation_breakdown(visualize=False) is None
            and t.get_gpu_kernels_with_user_annotations(0) is None
        )
    with pytest.raises(ValueError, match="rank 7 is not among"):
        t.get_queue_length_summary(ranks=[7])
    with pytest.raises(FileNotFoundError):
        TraceAnalysis(trace_dir=str(tmp_path / "nowhere"))


def test_two_files_of_one_rank(tmp_path):
    paths = {4: written(tmp_path, small(), "a.json"), 9: written(tmp_path, small(), "b.json")}
    t = TraceAnalysis(trace_files=paths, trace_dir="")
    assert t.t.get_ranks() == [4, 9] and t.get_temporal_breakdown(False)["rank"].tolist() == [4, 9]
    with pytest.raises(ValueError, match="same rank"):
        t.get_potential_stragglers()


def test_ranks_are_called_as_given(tmp_path):
    paths = {7: written(tmp_path, small(rank=0), "x.json"), 3: written(tmp_path, small(rank=1), "y.json")}
    t = TraceAnalysis(trace_files=paths, trace_dir="")
    assert t.t.get_ranks() == [3, 7] and {rank: pathlib.Path(p).name for rank, p in t.t.trace_files.items()} == {
        7: "x.json",
        3: "y.json",
    }
    assert sorted(TraceAnalysis(trace_files=list(paths.values()), trace_dir="").t.get_ranks()) == [0, 1]
    assert TraceAnalysis(trace_dir=str(tmp_path)).t.get_ranks() == [0, 1]


# ---- where HTA's own numbers hang on the order of what happens at one time ---------------------------------


def compat(folder, events):
    return TraceAnalysis([written(folder, {"traceEvents": events})], "", hta_compat=True)


def test_a_launch_comes_before_a_start_at_the_same_time(tmp_path):
    events = []
    launch(events, 0, 2, 1, "k", 10, 5)
    launch(events, 10, 2, 2, "k", 20, 5)  # launched as the first begins
    assert compat(tmp_path, events).get_queue_length_time_series()[0]["queue_length"].tolist() == [1, 2, 1, 0]


def test_a_copy_ends_before_the_next_begins(tmp_path):
    events = []
    for i, rate in enumerate((0.1, 0.2, 0.3)):  # one after the other; 0.1 + 0.2 - 0.1 is not 0.2 in floating point
        launch(
            events,
            i,
            1,
            i + 1,
            "Memcpy DtoD (Device -> Device)",
            100 + 5 * i,
            5,
            call="cudaMemcpyAsync",
            cat="gpu_memcpy",
            **{"memory bandwidth (GB/s)": rate},
        )
    t = compat(tmp_path, events)
    assert t.get_memory_bw_time_series()[0]["memory_bw_gbps"].tolist() == [0.1, 0.0, 0.2, 0.0, 0.3, 0.0]
    assert t.get_memory_bw_summary()["memory_bw_gbps", "count"].tolist() == [3]


def test_types_are_those_that_run(tmp_path):
    events = []
    launch(events, 0, 1, 1, "k", 10, 5)
    launch(events, 1, 1, 2, "ncclKernel_x", 15, 5, stream=20)  # begins as the other ends: no time together
    launch(events, 2, 1, 3, "tiny", 16.25, 0.5)  # 17 to 16 after rounding: no time, either
    types = compat(tmp_path, events).get_gpu_kernel_breakdown(False)[0]
    assert dict(zip(types["kernel_type"], types["sum"])) == {"COMPUTATION": 5, "COMMUNICATION": 5}


# ---- written files -----------------------------------------------------------------------------------------


def load(path):
    with gzip.open(path, "rt") as f:
        return json.load(f)["traceEvents"]


def test_counters_in_the_trace(analysis, tmp_path):
    analysis.generate_trace_with_counters()
    events = json.loads((tmp_path / "rank-0_with_counters.json").read_text())["traceEvents"]
    original = small()["traceEvents"]
    assert events[: len(original)] == original
    queue = [e for e in events if e.get("name") == "Queue Length"]
    assert len(queue) == 16 and queue[0] == {
        "ph": "C",
        "name": "Queue Length",
        "pid": 0,
        "tid": 7,
        "id": 7,
        "ts": 1005,
        "args": {"Queue Length": 1},
    }
    assert {(e["ts"], e["args"]["Memcpy BW"]) for e in events if e.get("name") == "Memcpy DtoH" and e["ph"] == "C"} == {
        (1110, 0.2),
        (1115, 0.0),
        (1310, 0.2),
        (1315, 0.0),
    }


def test_counters_by_either_rules_are_the_same_but_for_rounded_times(tmp_path):
    def points(**how):
        folder = tmp_path / str(len(how))
        folder.mkdir()
        (folder / "rank-0.json").write_text(json.dumps(small()))
        TraceAnalysis(trace_files={0: "rank-0.json"}, trace_dir=str(folder), **how).generate_trace_with_counters()
        events = json.loads((folder / "rank-0_with_counters.json").read_text())["traceEvents"]
        return sorted((e["name"], e["ts"], *e["args"].values()) for e in events if e["ph"] == "C")

    exact, theirs = points(), points(hta_compat=True, include_last_profiler_step=True)
    assert [(name, value) for name, _, value in exact] == [(name, value) for name, _, value in theirs]
    assert all(abs(mine[1] - other[1]) < 1 for mine, other in zip(exact, theirs))


def test_only_the_counters_asked_for(analysis, tmp_path):
    analysis.generate_trace_with_counters(time_series="queue_length", output_suffix="_q")
    events = json.loads((tmp_path / "rank-0_q.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "C"} == {"Queue Length"}


def test_sequences_and_their_overlay(analysis, tmp_path):
    frame = analysis.get_frequent_cuda_kernel_sequences("aten::mm", str(tmp_path / "out"), min_pattern_len=1)
    assert frame.values.tolist() == [["aten::mm|void gemm<float>(int)|relu", 2, 140.0, 80.0]]
    marked = [e["name"] for e in load(tmp_path / "out" / "overlaid_rank-0.json.gz") if "Patterns" in e.get("args", {})]
    assert sorted(marked) == ["aten::mm"] * 2 + ["cudaLaunchKernel"] * 4 + ["relu"] * 2 + ["void gemm<float>(int)"] * 2
    assert (
        len(analysis.get_frequent_cuda_kernel_sequences("nothing", str(tmp_path / "none"))) == 0
        and not (tmp_path / "none").exists()
    )


def test_op_kernels(analysis):
    frame = analysis.get_aten_op_kernels_and_delay(ranks=[0], sort_by=["occurrence_count", "aten_op_name"])[0]
    mm = frame[frame["aten_op_name"] == "aten::mm"].to_dict("records")
    assert mm == [
        {
            "aten_op_name": "aten::mm",
            "kernel_sequence": "void gemm<float>(int) -> relu",
            "occurrence_count": 2,
            "avg_aten_op_launch_delay": 3.0,
            "avg_runtime_delay": 15.0,
        }
    ]


def test_critical_path(analysis, tmp_path):
    graph, success = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
    breakdown = graph.get_critical_path_breakdown()
    assert success and list(breakdown.columns) == [
        "event_idx",
        "duration",
        "type",
        "s_name",
        "cat",
        "pid",
        "tid",
        "stream",
        "index",
        "bound_by",
    ]
    assert len(breakdown) == len(graph.critical_path_edges_set) == len(graph.critical_path_nodes) - 1
    times = [graph.node_list[node].ts for node in graph.critical_path_nodes]
    assert times == sorted(times) and times[-1] - times[0] == breakdown["duration"].sum()
    assert abs(graph.summary().sum() - 100) < 1e-9
    path = analysis.overlay_critical_path_analysis(0, graph, str(tmp_path / "out"))
    assert {e["name"] for e in load(path) if e.get("args", {}).get("critical") == 1 and e["ph"] == "X"} <= {
        e["name"] for e in small()["traceEvents"]
    }
    assert analysis.critical_path_analysis(0, "no such annotation", 0) is None


def test_the_path_can_be_kept(analysis, tmp_path):
    from tachograph.hta.analyzers.critical_path_analysis import restore_cpgraph

    graph = analysis.critical_path_analysis(0, "ProfilerStep", (0, 1))[0]
    again = restore_cpgraph(graph.save(str(tmp_path / "kept")), analysis.t, 0)
    assert (
        again.critical_path_nodes == graph.critical_path_nodes
        and again.number_of_edges() == graph.number_of_edges() > 0
    )


# ---- two traces, memory ------------------------------------------------------------------------------------


def test_trace_diff(tmp_path):
    changed = small()
    changed["traceEvents"] = [e for e in changed["traceEvents"] if e["name"] != "relu"] + [
        slice_of("cpu_op", "aten::add", 1150, 2),
        slice_of("cpu_op", "aten::mm", 1160, 5),
    ]
    for name, document in (("a", small()), ("b", changed)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, document)
    frame = TraceDiff.compare_traces(str(tmp_path / "a"), str(tmp_path / "b"))
    assert frame.index.name == "name" and list(frame.columns) == [
        "Control_counts",
        "Control_total_duration",
        "Test_counts",
        "Test_total_duration",
        "diff_counts",
        "diff_duration",
        "counts_change_categories",
    ]
    assert frame.loc["aten::mm"].tolist() == [1, 40, 2, 45, 1, 5, "+"] and frame.loc["relu"].tolist() == [
        1,
        30,
        0,
        0,
        -1,
        -30,
        "-",
    ]
    ops = TraceDiff.ops_diff(str(tmp_path / "a"), str(tmp_path / "b"), control_iteration=6, test_iteration=5)
    assert (ops["added"], ops["deleted"], ops["increased"]) == (
        ["aten::add", "ProfilerStep#5"],
        ["ProfilerStep#6", "relu"],
        ["aten::mm"],
    ) or sorted(ops["added"]) == ["ProfilerStep#5", "aten::add"]
    left = LabeledTrace("left", trace_dir=str(tmp_path / "a"))
    assert left.ranks() == [0] and left.iterations() == [5, 6]
    summary = left.get_ops_summary(left.extract_ops(iteration=[5, 6]))
    assert summary[summary["short_name"] == "gemm"][["cat", "counts", "total_duration"]].values.tolist() == [
        ["kernel", 2, 80]
    ]
    with pytest.raises(ValueError, match="iteration 9 is not"):
        left.extract_ops(iteration=9)


def test_memory_timeline(tmp_path):
    path = tmp_path / "timeline.raw.json.gz"
    with gzip.open(path, "wt") as f:
        json.dump([[-1, 0, 100, 0], [10, 1, 50, 4], [10, 1, 25, 3], [20, 2, -50, 4]], f)
    frame = MemoryAnalysis(str(path)).to_frame()
    assert frame[["time", "Parameter", "Activation", "Temporary", "total"]].values.tolist() == [
        [10, 100, 50, 25, 175],
        [20, 100, 0, 25, 125],
    ]
    assert MemoryAnalysis(str(path), hta_compat=True).times.tolist() == [10, 10, 20]
    path.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    with pytest.raises(ValueError, match="no raw memory timeline"):
        MemoryAnalysis(str(path))


def test_without_plotly_a_sentence_and_the_frame(analysis, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.warns(UserWarning, match="plotly, which is not installed"):
        assert len(analysis.get_temporal_breakdown()) == 1


# ---- beside the real one -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        document = training(seed=rank + 11)
        document["distributedInfo"]["rank"] = rank
        for event in document["traceEvents"]:  # whole microseconds: HTA rounds the others
            event["ts"], event["dur"] = (round(event[k]) if k in event else None for k in ("ts", "dur"))
            if event["dur"] is None:
                del event["dur"]
        (made / f"rank-{rank}.json").write_text(json.dumps(document, indent=1))
    return str(made)


def test_the_calls_of_the_tutorials_run(folder):
    for compat in (False, True):
        answers = hta_calls.run("tachograph.hta", folder, hta_compat=compat)
        assert len(answers["temporal"]["rows"]) == 2 and answers["temporal"] == answers["temporal by position"]
        assert all(answers[name] for name in answers), [name for name in answers if not answers[name]]


@pytest.mark.skipif(
    peers.find() is None, reason="HolisticTraceAnalysis is not installed: python tests/python/peers.py make"
)
def test_frames_equal_those_of_hta(folder, tmp_path):
    out = tmp_path / "theirs.pickle"
    done = subprocess.run(
        [str(peers.find()), hta_calls.__file__, "hta", folder, str(out)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    theirs = pickle.loads(out.read_bytes())
    ours = hta_calls.run("tachograph.hta", folder, hta_compat=True)
    for name in ("kernels", "kernels, all"):  # D14: sets of types that no time was spent in
        theirs[name][0]["rows"] = [
            [i, *row[1:]] for i, row in enumerate(row for row in theirs[name][0]["rows"] if row[2] > 0)
        ]
    for name in theirs:
        same(theirs[name], ours[name], name)


def same(want, got, name):
    if isinstance(want, list):
        assert len(want) == len(got), name
        for i, (w, g) in enumerate(zip(want, got)):
            same(w, g, f"{name}[{i}]")
    elif isinstance(want, dict):
        assert list(want) == list(got), (name, list(want), list(got))
        for k in want:
            same(want[k], got[k], f"{name}.{k}")
    elif isinstance(want, float) and isinstance(got, (int, float)):
        assert (math.isnan(want) and math.isnan(got)) or abs(want - got) <= 1e-9 * max(1.0, abs(want)), (
            name,
            want,
            got,
        )
    else:
        assert want == got, (name, want, got)
