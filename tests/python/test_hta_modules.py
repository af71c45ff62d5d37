"""tachograph.hta beside TraceAnalysis: filters by operator, lookups in frames, timelines. A trace of two steps whose
figures are worked out by hand."""

import importlib
import inspect
import json
import sys
import types

import pytest

pandas = pytest.importorskip("pandas")

from tachograph.hta.analyzers import timeline as device_timeline
from tachograph.hta.common import (
    timeline,
    trace_df,
    trace_stack_filter as stack_filter,
)
from tachograph.hta.common.trace import Trace
from tachograph.hta.common.trace_call_graph import CallGraph

REQUIRED = inspect.Parameter.empty


def event(cat, name, ts, dur, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step(number, at):
    """100 us: forward with a matmul and its kernel, a wait, backward with another; the kernels run 20 us after their
    call begins."""
    link = 10 * number
    return [
        event("user_annotation", f"ProfilerStep#{number}", at, 100),
        event("user_annotation", "## forward ##", at + 5, 40),
        event("cpu_op", "aten::mm", at + 10, 20),
        event("cuda_runtime", "cudaLaunchKernel", at + 12, 5, correlation=link + 1),
        event("cpu_op", "aten::wait", at + 50, 10),
        event("cpu_op", "aten::mm", at + 70, 20),
        event("cuda_runtime", "cudaLaunchKernel", at + 72, 5, correlation=link + 2),
        event("kernel", "void gemm<float>(int)", at + 32, 30, tid=7, pid=0, stream=7, correlation=link + 1, device=0),
        event("kernel", "void gemm<float>(int)", at + 92, 6, tid=7, pid=0, stream=7, correlation=link + 2, device=0),
    ]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"distributedInfo": {"rank": 0}, "traceEvents": step(1, 1000) + step(2, 1200)}))
    made = Trace(trace_files={0: str(path)}, trace_dir="")
    made.load_traces()
    made.decode_symbol_ids(use_shorten_name=False)
    return made


def names(frame):
    return list(zip(frame["s_name"], frame["ts"].astype(int)))


MM, LAUNCH, GEMM = "aten::mm", "cudaLaunchKernel", "void gemm<float>(int)"


@pytest.mark.parametrize(
    "kind, name, position, kernels, want",
    [
        (stack_filter.UnderOperatorFilter, "## forward ##", 0, False, [("## forward ##", 5), (MM, 10), (LAUNCH, 12)]),
        (
            stack_filter.UnderOperatorFilter,
            "## forward ##",
            -1,
            True,
            [("## forward ##", 205), (MM, 210), (LAUNCH, 212), (GEMM, 232)],
        ),
        (stack_filter.AfterOperatorFilter, "aten::wait", 1, False, [(MM, 270), (LAUNCH, 272)]),
        (stack_filter.AfterOperatorFilter, "aten::wait", -1, True, [(MM, 270), (LAUNCH, 272), (GEMM, 292)]),
        (stack_filter.BeforeOperatorFilter, "aten::wait", 0, False, [("## forward ##", 5), (MM, 10), (LAUNCH, 12)]),
        (stack_filter.UnderOperatorFilter, "aten::wait", 2, False, []),
        (stack_filter.UnderOperatorFilter, "no such name", 0, True, []),
    ],
)
def test_by_operator(trace, kind, name, position, kernels, want):
    assert names(kind(name, position, kernels)(trace.get_trace(0))) == want


def test_by_operator_what_is_around(trace):
    frame = trace.get_trace(0)
    around = stack_filter.OperatorFilter(LAUNCH, 0, stack_filter.OperatorFilterMethod.Ancestors)(frame)
    assert names(around) == [("ProfilerStep#1", 0), ("## forward ##", 5), (MM, 10), (LAUNCH, 12)]
    both = stack_filter.OperatorFilter(MM, 0, stack_filter.OperatorFilterMethod.Stack)(frame)
    assert names(both) == [("ProfilerStep#1", 0), ("## forward ##", 5), (MM, 10), (LAUNCH, 12)]


def test_by_operator_needs_names(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": step(1, 0)}))
    with pytest.raises(ValueError, match="decode_symbol_ids"):
        stack_filter.UnderOperatorFilter(MM, 0)(Trace(trace_files={0: str(path)}, trace_dir="").get_trace(0))


def test_combined(trace):
    frame = trace.get_trace(0)
    kept = stack_filter.CombinedOperatorFilter("ProfilerStep#1", "## forward ##", "no such name")(frame)
    assert names(kept) == [("aten::wait", 50), (MM, 70), (LAUNCH, 72)]
    kept = stack_filter.CombinedOperatorFilter(
        "ProfilerStep#1", "aten::wait", "no such name", include_gpu_kernels=True
    )(frame)
    assert names(kept) == [(GEMM, 92), (MM, 70), (LAUNCH, 72)]
    CallGraph(trace)
    kept = stack_filter.CombinedOperatorFilter("ProfilerStep#1", "", "", stack_depths=[1])(trace.get_trace(0))
    assert names(kept) == [("## forward ##", 5), ("aten::wait", 50), (MM, 70)]


def test_looking_up(trace):
    frame = trace.get_trace(0)
    assert trace_df.get_iterations(frame) == [1, 2]
    assert [trace_df.find_op_occurrence(frame, MM, n)[1]["ts"] for n in (0, 1, 2, 3, -1, -4)] == [
        10,
        70,
        210,
        270,
        270,
        10,
    ]
    assert [trace_df.find_op_occurrence(frame, MM, n)[0] for n in (4, -5)] == [False, False]
    want = frame.loc[frame["s_name"].isin(["## forward ##", "aten::wait"]), "index"].tolist()
    assert (
        trace_df.find_events_by_name_patterns_using_symbol_table(
            frame, ["## f", "aten::w"], trace.symbol_table
        ).tolist()
        == want
    )
    assert trace_df.find_events_by_name_patterns_using_decoded_names(frame, ["## f", "aten::w"]).tolist() == want


def test_modules_beside_their_kernels(trace):
    CallGraph(trace)
    aligned = timeline.align_module_with_kernels(trace.get_trace(0), ["## forward", "ProfilerStep"], trace.symbol_table)
    copies = aligned[aligned["stream"] == -2]
    assert list(zip(copies["s_name"], copies["ts"], copies["dur"])) == [
        ("ProfilerStep#1", 32, 66),
        ("## forward ##", 32, 30),
        ("ProfilerStep#2", 232, 66),
        ("## forward ##", 232, 30),
    ]
    assert (aligned["stream"] == 7).sum() == 4 and (aligned["stream"] == -1).sum() == 0
    everything = timeline.align_module_with_kernels(
        trace.get_trace(0), ["## forward"], trace.symbol_table, include_original_cpu_events=True
    )
    assert len(everything) == 18 + 2
    with pytest.raises(ValueError, match="kernel_span"):
        timeline.align_module_with_kernels(trace.get_trace(0).drop(columns="kernel_span"), ["x"], trace.symbol_table)


def test_events_of_a_timeline(trace):
    setting = timeline.TimelinePlotSetting(short_events_display_duration=10)
    frame = trace.get_trace(0)
    device = timeline.Timeline(
        frame, trace.symbol_table, lambda df, symbols: df[df["stream"] == 7], setting
    ).timeline_events
    assert setting.event_type is timeline.EventType.GPUEvents and not setting.multi_streams
    assert device["calibrated_start_global"].tolist() == [0, 60, 200, 260]
    assert device["calibrated_end_global"].tolist() == [30, 70, 230, 270]  # the kernels of 6 us are drawn 10 us long
    assert set(device["name"]) == {"gemm<float>"}
    every = timeline.prepare_timeline_events(frame, setting, trace.symbol_table)
    assert setting.event_type is timeline.EventType.AllEvents
    assert every["task"].value_counts().to_dict() == {"cpu events": 14, "gpu stream 007": 4}
    CallGraph(trace)
    host = timeline.prepare_timeline_events(trace.get_trace(0).query("stream == -1"), setting, trace.symbol_table)
    assert host["task"].value_counts().to_dict() == {
        "cpu level 000": 2,
        "cpu level 001": 6,
        "cpu level 002": 4,
        "cpu level 003": 2,
    }
    assert timeline.prepare_timeline_events(frame.iloc[:0]).empty
    with pytest.raises(ValueError, match="lacks ts"):
        timeline.prepare_timeline_events(frame.drop(columns="ts"))
    assert timeline.get_fig_title_from_fig_name("my_gpu-events") == "My Gpu Events"
    assert timeline.get_fig_name_from_fig_title("My GPU  events") == "my_gpu_events"


def test_lanes_of_ranks_and_streams(trace):
    frame = trace.get_trace(0).assign(rank=0)
    events = device_timeline.prepare_timeline_gpu_events(
        frame, trace.symbol_table, iterations=[2], duration_threshold=20
    )
    assert events["task"].tolist() == ["rank 0 stream 7"] * 2 and events["label"].tolist() == ["gemm"] * 2
    lasts = (events["calibrated_end_global"] - events["calibrated_start_global"]).dt.total_seconds() * 1e6
    assert lasts.round().tolist() == [30, 20]


def test_figures_are_drawn(trace, monkeypatch):
    """What is handed to the library that draws: the columns by their roles, and lanes in order."""
    drawn = []
    figure = types.SimpleNamespace(
        show=lambda: drawn.append("shown"), to_html=lambda **how: "<html>", write_html=lambda path: drawn.append(path)
    )

    def draw(events, **how):
        drawn.append((len(events), how["x_start"], how["y"], how["category_orders"]))
        return figure

    express = types.SimpleNamespace(timeline=draw)
    plotly = types.ModuleType("plotly")
    for name, module in (
        ("plotly", plotly),
        ("plotly.graph_objects", types.ModuleType("g")),
        ("plotly.subplots", types.ModuleType("s")),
        ("plotly.express", express),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    plotly.express = express
    device_timeline.plot_timeline_gpu_kernels_from_trace("Kernels", trace, streams=[7])
    assert drawn == [(4, "calibrated_start_global", "task", {"task": ["rank 0 stream 7"]}), "shown"]
    drawn.clear()
    setting = timeline.TimelinePlotSetting(plot_format=timeline.PlotFormat.HTML)
    events = timeline.prepare_timeline_events(trace.get_trace(0), setting, trace.symbol_table)
    assert timeline.plot_events_timeline("All", events, setting, output_image_path="page.html") == "<html>"
    assert drawn == [(18, "calibrated_start_global", "task", {"task": ["cpu events", "gpu stream 007"]}), "page.html"]
    with pytest.raises(ValueError, match="prepare_timeline_events"):
        timeline.plot_events_timeline("All", trace.get_trace(0), setting)


# ---- every public name that notebooks import beside TraceAnalysis, with its arguments: release 0.6.1 -------

OPERATOR = [("op_name", REQUIRED), ("position", REQUIRED)]
KERNELS = [("include_gpu_kernels", False), ("name_column", None)]
CHOICE = [("ranks", None), ("iterations", None), ("streams", None), ("duration_threshold", 1000)]
SIDES = [(f"{side}_{what}", None) for what in ("rank", "iteration") for side in ("control", "test")]
COMPARED = [("control", REQUIRED), ("test", REQUIRED), *SIDES]
NAMES = {
    "common.trace_stack_filter": {
        "get_matching_kernels": ["df_ops", "df_both", "cat_column"],
        "OperatorFilter": [*OPERATOR, ("method", REQUIRED), *KERNELS],
        "AfterOperatorFilter": [*OPERATOR, *KERNELS],
        "BeforeOperatorFilter": [*OPERATOR, *KERNELS],
        "UnderOperatorFilter": [*OPERATOR, *KERNELS],
        "CombinedOperatorFilter": [
            "root_op_name",
            "preceding_op_name",
            "following_op_name",
            ("include_gpu_kernels", False),
            ("stack_depths", None),
        ],
    },
    "common.trace_filter": {
        "IterationFilter": ["iterations"],
        "IterationIndexFilter": ["iteration_index"],
        "FirstIterationFilter": [],
        "RankFilter": ["ranks"],
        "TimeRangeFilter": ["time_range"],
        "NameIdColumnFilter": ["name_pattern"],
        "QueryFilter": ["query_str"],
        "CompositeFilter": ["filters"],
        "NameFilter": ["name_pattern", ("symbol_table", None), ("name_column", None)],
        "GPUKernelFilter": [],
        "CPUOperatorFilter": [],
        "ZeroDurationFilter": [],
        "MemCopyEventFilter": ["memory_copy_type", ("symbol_table", None)],
    },
    "common.trace_df": {
        "get_iterations": ["df"],
        "find_op_occurrence": ["df", "op_name", "position", ("name_column", "s_name")],
        "find_events_by_name_patterns_using_symbol_table": ["df", "list_name_patterns", "symbol_table"],
        "find_events_by_name_patterns_using_decoded_names": ["df", "list_name_patterns", ("name_column", "s_name")],
    },
    "common.timeline": {
        "align_module_with_kernels": [
            "events_df",
            "module_list",
            ("sym_table", None),
            ("include_original_cpu_events", False),
        ],
        "prepare_timeline_events": [
            "df",
            ("setting", timeline.DefaultTimelinePlotSetting),
            ("symbol_table", None),
            ("hover_columns", None),
        ],
        "plot_events_timeline": [
            "title",
            "events",
            ("setting", timeline.DefaultTimelinePlotSetting),
            ("hover_columns", None),
            ("output_image_path", None),
        ],
        "Timeline": [
            "timeline_events",
            "symbol_table",
            ("filter_func", None),
            ("setting", timeline.DefaultTimelinePlotSetting),
            ("hover_columns", None),
        ],
        "Timeline.prepare": [("filter_func", None)],
        "Timeline.plot": ["title", ("save_path", None)],
        "auto_detect_setting": ["events", "setting"],
        "get_fig_title_from_fig_name": ["fig_name", ("sep", r"\s+|_+|-+")],
        "get_fig_name_from_fig_title": ["title"],
    },
    "analyzers.timeline": {
        "plot_timeline": ["title", "events", ("ranks", None)],
        "prepare_timeline_gpu_events": ["df", "symbol_table", *CHOICE],
        "plot_timeline_gpu_kernels": ["title", "df", "symbol_table", *CHOICE],
        "plot_timeline_gpu_kernels_from_trace": ["title", "trace_data", *CHOICE],
    },
    "common.trace_call_graph": {
        "CallGraph": ["trace", ("ranks", None)],
        "CallGraph.get_node_attributes": ["index", ("rank", None)],
        "CallGraph.get_stack_of_node": ["index", ("rank", None), ("skip_ancestors", False)],
        "CallGraph.get_gpu_kernels": [("rank", None)],
    },
    "common.trace": {
        "Trace.load_traces": [
            ("include_last_profiler_step", False),
            ("use_multiprocessing", True),
            ("use_memory_profiling", True),
        ],
        "Trace.parse_traces": [("max_ranks", -1), ("use_multiprocessing", True), ("use_memory_profiling", True)],
        "Trace.align_and_filter_trace": [("include_last_profiler_step", False)],
        "Trace.get_ranks": [],
        "Trace.get_iterations": [("rank", None)],
        "Trace.get_trace_duration": [("rank", None)],
        "Trace.get_trace": ["rank"],
        "Trace.get_all_traces": [],
        "Trace.get_raw_trace_for_one_rank": [("rank", 0)],
        "Trace.write_raw_trace": ["output_file", "trace_contents"],
        "Trace.decode_symbol_ids": [("use_shorten_name", True)],
        "Trace.get_trace_start_unixtime_ns": ["rank"],
    },
    "common.trace_symbol_table": {
        "TraceSymbolTable.add_symbols": ["symbols"],
        "TraceSymbolTable.get_sym_id_map": [],
        "TraceSymbolTable.get_sym_table": [],
        "TraceSymbolTable.find_matches": ["patterns"],
        "TraceSymbolTable.find_matched_symbols": ["patterns"],
        "TraceSymbolTable.is_empty": [],
        "TraceSymbolTable.get_sym_index_series": [],
        "TraceSymbolTable.get_sym_table_series": [],
        "TraceSymbolTable.get_symbol_names": ["symbol_ids"],
        "TraceSymbolTable.decode_df": ["df", ("create_new_columns", True)],
        "TraceSymbolTable.add_symbols_to_trace_df": ["trace_df", "col"],
        "TraceSymbolTable.get_profiler_step_ids": [],
    },
    "trace_diff": {
        "LabeledTrace": [("label", None), ("t", None), ("trace_dir", None)],
        "LabeledTrace.ranks": [],
        "LabeledTrace.iterations": [],
        "LabeledTrace.extract_ops": [("rank", None), ("iteration", None), ("device_type", "DeviceType.ALL")],
        "LabeledTrace.get_ops_summary": ["ops"],
        "TraceDiff.compare_traces": [*COMPARED, ("device_type", "DeviceType.ALL"), ("use_short_name", False)],
        "TraceDiff.ops_diff": [*COMPARED, ("device_type", "DeviceType.ALL")],
        "TraceDiff.visualize_counts_diff": ["df", ("show_image", True), ("export_image_path", None)],
        "TraceDiff.visualize_duration_diff": ["df", ("show_image", True), ("export_image_path", None)],
    },
    "memory_analysis": {"MemoryAnalysis": ["path"], "MemoryAnalysis.plot_memory_timeline": [("save_graph", False)]},
    "common.execution_trace": {
        "load_execution_trace": ["et_file"],
        "correlate_execution_trace": ["trace", "rank", "et"],
        "add_et_column": ["trace_df", "et", "column"],
    },
    "analyzers.critical_path_analysis": {
        "restore_cpgraph": ["zip_filename", "t_full", "rank"],
        "CPGraph.get_critical_path_breakdown": [],
        "CPGraph.summary": [],
        "CPGraph.save": ["out_dir"],
        "CPGraph.get_nodes_for_event": ["ev_id"],
        "CPGraph.get_events_for_edge": ["edge"],
        "CPGraph.get_event_attribution_for_edge": ["edge"],
        "CPGraph.show_critical_path": [],
    },
    "utils.utils": {
        "shorten_name": ["name"],
        "get_kernel_type": ["name"],
        "get_memory_kernel_type": ["name"],
        "is_comm_kernel": ["name"],
        "is_memory_kernel": ["name"],
        "is_compute_kernel": ["name"],
    },
}


@pytest.mark.parametrize("module, name", [(module, name) for module, of in NAMES.items() for name in of])
def test_signature(module, name):
    """Its arguments in order, with their defaults; ours may follow behind them."""
    found = importlib.import_module(f"tachograph.hta.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    told = [
        (p.name, str(p.default) if "DeviceType" in str(p.default) else p.default)
        for p in inspect.signature(found).parameters.values()
        if p.name != "self"
    ]
    want = [(part, REQUIRED) if isinstance(part, str) else part for part in NAMES[module][name]]
    assert told[: len(want)] == want
    assert all(default is not REQUIRED for _, default in told[len(want) :])
