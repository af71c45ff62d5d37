"""tachograph.hta where a notebook reaches below TraceAnalysis: times before and after load_traces, which args are
columns, files and their ranks, patterns, frames without what a filter asks for. Figures worked out by hand."""

import json
import re

import pytest

pandas = pytest.importorskip("pandas")

from tachograph.hta.common import trace_file, types
from tachograph.hta.common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
from tachograph.hta.common.trace import Trace, parse_trace_file, trace_event_timestamp_to_unixtime_ns
from tachograph.hta.common.trace_call_graph import CallGraph
from tachograph.hta.common.trace_filter import FirstIterationFilter, IterationIndexFilter, RankFilter
from tachograph.hta.common.trace_parser import (
    ParserBackend,
    get_default_trace_parsing_backend,
    parse_trace_dict,
    set_default_trace_parsing_backend,
)
from tachograph.hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name
from tachograph.hta.configs.config import HtaConfig, logger
from tachograph.hta.configs.parser_config import AVAILABLE_ARGS, ParserConfig
from tachograph.hta.trace_analysis import TimeSeriesTypes, TraceAnalysis
from tachograph.hta.utils.utils import flatten_column_names, get_symbol_column_names, merge_kernel_intervals

BEGIN = 1_682_725_898_000_000  # microseconds since 1970


def event(cat, name, ts, dur, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": BEGIN + ts, "dur": dur, "args": args}


def recording(rank=0, pid=1):
    """Two steps of 100 us: an operator launches a kernel of 30 us 20 us after its call began, then a copy of 10 us."""
    events = []
    for number in (1, 2):
        at, link = 200 * (number - 1), 10 * number
        events += [
            event("user_annotation", f"ProfilerStep#{number}", at, 100, pid=pid),
            event(
                "cpu_op",
                "aten::mm",
                at + 10,
                20,
                pid=pid,
                **{"Input Dims": [[2, 3], [3, 4]], "External id": 5, "Concrete Inputs": ["", ""]},
            ),
            event("cuda_runtime", "cudaLaunchKernel", at + 12, 5, pid=pid, correlation=link, cbid=211),
            event("cuda_runtime", "cudaMemcpyAsync", at + 40, 5, pid=pid, correlation=link + 1),
            event(
                "kernel",
                "void gemm<float>(int)",
                at + 32,
                30,
                tid=7,
                pid=0,
                stream=7,
                correlation=link,
                device=0,
                grid=[4, 1, 1],
            ),
            event(
                "gpu_memcpy",
                "Memcpy DtoH (Device -> Pinned)",
                at + 62,
                10,
                tid=7,
                pid=0,
                stream=7,
                correlation=link + 1,
                device=0,
                bytes=400,
                **{"memory bandwidth (GB/s)": 0.5},
            ),
        ]
    return {"schemaVersion": 1, "baseTimeNanoseconds": 7, "distributedInfo": {"rank": rank}, "traceEvents": events}


def written(folder, rank=0, pid=1, name=None):
    path = folder / (name or f"rank-{rank}.json")
    path.write_text(json.dumps(recording(rank, pid)))
    return str(path)


# ---- times, before and after load_traces -------------------------------------------------------------------


@pytest.mark.parametrize("hta_compat", [False, True])
def test_times_stand_as_in_the_file_until_they_are_aligned(tmp_path, hta_compat):
    path = written(tmp_path)
    t = Trace(trace_files={0: path}, trace_dir="", hta_compat=hta_compat)
    t.parse_traces()
    frame = t.get_trace(0)
    assert frame["ts"].tolist() == [e["ts"] for e in recording()["traceEvents"]]
    assert (frame["end"] == frame["ts"] + frame["dur"]).all() and len(frame) == 12
    CallGraph(t)
    mm = frame[frame["dur"] == 20].iloc[0]
    assert (mm["first_kernel_start"], mm["last_kernel_end"], mm["kernel_span"]) == (BEGIN + 32, BEGIN + 62, 30)
    t.load_traces()
    rows = t.get_trace(0)
    assert t.min_ts == BEGIN and rows["ts"].min() == 0
    assert len(rows) == (6 if hta_compat else 12)  # HTA leaves out the last step; by default all events count
    assert TraceAnalysis(trace_files={0: path}, trace_dir="", hta_compat=hta_compat).t.get_trace(0)["ts"].min() == 0


def test_moments_since_1970():
    assert trace_event_timestamp_to_unixtime_ns(1.5, {"baseTimeNanoseconds": 7}) == 1507


# ---- which args are columns --------------------------------------------------------------------------------


@pytest.fixture
def default_config():
    before = ParserConfig.get_default_cfg()
    yield before
    ParserConfig.set_default_cfg(before)


def test_columns_that_are_added(tmp_path, default_config):
    path = written(tmp_path)
    first = Trace(trace_files={0: path}, trace_dir="")
    cfg = ParserConfig.get_default_cfg()
    cfg.add_args([AVAILABLE_ARGS["threads::grid"], AVAILABLE_ARGS["correlation::cbid"], *ParserConfig.ARGS_INPUT_SHAPE])
    ParserConfig.set_default_cfg(cfg)
    frame = Trace(trace_files={0: path}, trace_dir="").get_trace(0)
    added = [c for c in frame.columns if c not in first.get_trace(0).columns]
    assert added == ["grid", "cbid"]  # the shapes are there by default; a Trace made before keeps its columns
    assert frame["grid"].tolist()[:5] == ["[]", "[]", "[]", "[]", [4, 1, 1]] and frame["cbid"].tolist()[:4] == [
        -1,
        -1,
        211,
        -1,
    ]
    assert frame["input_dims"].iloc[1] == [[2, 3], [3, 4]] and str(frame["cbid"].dtype) == "int16"


def test_columns_of_one_trace(tmp_path):
    t = Trace(
        trace_files={0: written(tmp_path)}, trace_dir="", parser_config=ParserConfig(ParserConfig.get_minimum_args())
    )
    assert list(t.get_trace(0).columns) == [
        "index",
        "cat",
        "name",
        "pid",
        "tid",
        "ts",
        "dur",
        "end",
        "stream",
        "correlation",
        "index_correlation",
        "iteration",
    ]
    kernels = TraceAnalysis(trace_files={0: written(tmp_path)}, trace_dir="")
    kernels.t.parser_config = ParserConfig().set_parse_all_args(True)
    frame = kernels.t.get_trace(0)
    assert frame[["device", "memory_bw_gbps", "bytes", "external_id"]].iloc[5].tolist() == [0, 0.5, 400, -1]
    assert frame["concrete_inputs"].iloc[1] == ["", ""] and "python_id" not in frame.columns


def test_a_key_nobody_has_specified(tmp_path):
    document = recording()
    document["traceEvents"][1]["args"].update({"My key (s)": 3, "name": "inner"})
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    frame = Trace(trace_files={0: str(path)}, trace_dir="", parser_config=ParserConfig(parse_all_args=True)).get_trace(
        0
    )
    assert frame["my_key"].tolist()[:3] == [0, 3, 0] and frame["arg_name"].tolist()[:3] == ["", "inner", ""]


def test_one_file(tmp_path):
    meta, frame, symbols = parse_trace_file(written(tmp_path, rank=3), ParserConfig(ParserConfig.ARGS_MINIMUM))
    assert meta["schemaVersion"] == 1 and len(frame) == 12 and symbols.sym_table[frame["name"].iloc[1]] == "aten::mm"


def test_settings(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"a": {"b": 2}}')
    config = HtaConfig(str(path), load_default_paths=False)
    assert (config.get_config("a.b"), config.get_config("a.c", 5), config.get_config()) == (2, 5, {"a": {"b": 2}})
    assert HtaConfig.get_test_data_path("x").endswith("tests/data/x") and logger.name == "tachograph.hta"
    set_default_trace_parsing_backend(ParserBackend.IJSON)
    assert get_default_trace_parsing_backend() is ParserBackend.IJSON
    set_default_trace_parsing_backend(ParserBackend.JSON)


# ---- files -------------------------------------------------------------------------------------------------


def test_files_by_rank(tmp_path):
    paths = {rank: written(tmp_path, rank) for rank in (0, 1)}
    assert (
        trace_file.get_trace_files(str(tmp_path))
        == paths
        == trace_file.create_rank_to_trace_dict(list(paths.values()))[1]
    )
    assert trace_file.create_rank_to_trace_dict_from_dir(str(tmp_path / "none")) == (False, {})
    trace_file.update_trace_rank(paths[1], 5)
    assert sorted(trace_file.get_trace_files(str(tmp_path))) == [0, 5]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_document_as_it_stands(tmp_path, name):
    path = str(tmp_path / name)
    trace_file.write_trace(recording(), path)
    assert (name.endswith(".gz")) == (open(path, "rb").read(2) == b"\x1f\x8b")
    t = TraceAnalysis(trace_files={0: path}, trace_dir="").t
    assert parse_trace_dict(path) == recording() == t.get_raw_trace_for_one_rank(0)


def test_the_document_of_a_native_file(tmp_path):
    import tachograph

    tachograph.open(written(tmp_path)).save(str(tmp_path / "t.tacho"))
    events = TraceAnalysis(trace_files={0: str(tmp_path / "t.tacho")}, trace_dir="").t.get_raw_trace_for_one_rank(0)[
        "traceEvents"
    ]
    assert [e["name"] for e in events if e["ph"] == "X"] == [e["name"] for e in recording()["traceEvents"]]


# ---- frames without what is asked for ----------------------------------------------------------------------


def test_filters_of_frames_without_ranks_or_iterations(tmp_path):
    document = recording()
    document["traceEvents"] = [e for e in document["traceEvents"] if "Profiler" not in e["name"]]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    frame = Trace(trace_files={0: str(path)}, trace_dir="").get_trace(0)
    assert len(RankFilter(3)(frame)) == len(FirstIterationFilter()(frame)) == len(IterationIndexFilter(1)(frame)) == 10
    assert len(RankFilter(3)(frame.assign(rank=0))) == 0


@pytest.mark.parametrize("hta_compat", [False, True])
def test_no_stragglers_are_a_value_error(tmp_path, hta_compat):
    with pytest.raises(ValueError):
        TraceAnalysis(
            trace_files={0: written(tmp_path)}, trace_dir="", hta_compat=hta_compat
        ).get_potential_stragglers()


def test_path_of_a_later_rank_with_words_for_processes(tmp_path):
    """Edges that no event is charged with have no track, wherever the tracks of the rank begin. The path: the first
    operator (2 + 5 + 13), the call of the copy (5), and in the second step 2 to the launch, 20 to the kernel, 30 in it
    and 10 in the copy."""
    files = [written(tmp_path, 0, pid="python"), written(tmp_path, 1, pid="python")]
    t = TraceAnalysis(trace_files=files, trace_dir="")
    for rank in (0, 1):
        graph, found = t.critical_path_analysis(rank, "", None)
        frame = graph.get_critical_path_breakdown()
        assert found and set(frame["pid"].dropna()) <= {"python", 0} and frame["duration"].sum() == 87


# ---- the graph by networkx' names --------------------------------------------------------------------------


def test_graph_around_a_node(tmp_path):
    graph, _ = TraceAnalysis(trace_files={0: written(tmp_path)}, trace_dir="").critical_path_analysis(0, "", None)
    assert len(graph) == graph.number_of_nodes() == len(list(graph)) and len(graph.edges) == graph.number_of_edges()
    for node in graph:
        assert (
            sorted(graph.predecessors(node))
            == sorted(u for u, v in graph.edges if v == node)
            == sorted(u for u, _ in graph.in_edges(node))
        )
        assert sorted(graph.successors(node)) == sorted(v for u, v in graph.edges if u == node)
    for edge in graph.edge_objects():
        assert graph.has_edge(edge.begin, edge.end) and graph.get_edge_data(edge.begin, edge.end) == {
            "weight": edge.weight,
            "object": edge,
        }
        assert (edge.begin, edge.end, {"weight": edge.weight, "object": edge}) in graph.out_edges(edge.begin, data=True)
    assert not graph.has_node(-5) and graph.get_edge_data(-5, 0) is None
    assert graph.edges(data="weight") == [(u, v, graph.edges[u, v]["weight"]) for u, v in graph.edges()]


@pytest.mark.parametrize("hta_compat", [False, True])
def test_nodes_by_number(tmp_path, hta_compat):
    t = TraceAnalysis(
        trace_files={0: written(tmp_path)}, trace_dir="", hta_compat=hta_compat, include_last_profiler_step=True
    )
    graph, _ = t.critical_path_analysis(0, "", None)
    times = {e["name"]: (e["ts"] - BEGIN, e["ts"] - BEGIN + e["dur"]) for e in recording()["traceEvents"][:6]}
    nodes = list(graph.node_list)
    assert len(nodes) == len(graph.node_list) == len(graph.nodes) and [n.ts for n in nodes] == sorted(
        n.ts for n in nodes
    )
    for event, name in ((1, "aten::mm"), (3, "cudaMemcpyAsync"), (4, "void gemm<float>(int)")):
        start, end = graph.get_nodes_for_event(event)
        assert (
            (start.ts, end.ts) == times[name]
            and start.is_start
            and not end.is_start
            and end == graph.node_list[end.idx]
        )
        assert (start.ev_idx, end.is_blocking) == (event, name == "cudaMemcpyAsync")
    assert graph.get_nodes_for_event(0) == (None, None)
    with pytest.raises(IndexError):
        graph.node_list[0]


def test_what_if_an_edge_were_longer(tmp_path):
    """Of 87 us: the kernel of the first step is given 500 us, so that the path leads through it: 2 to its launch, 20
    until it begins, then 500, then the copy after it (10). In the breakdown edges keep the time they took."""
    graph, _ = TraceAnalysis(trace_files={0: written(tmp_path)}, trace_dir="").critical_path_analysis(0, "", None)
    before = graph.get_critical_path_breakdown()
    assert graph.critical_path() and graph.get_critical_path_breakdown().equals(before)
    start, end = graph.get_nodes_for_event(4)
    graph.edges[start.idx, end.idx]["weight"] = 500
    assert graph.critical_path()
    path = graph.get_critical_path_breakdown()
    on_path = [
        (round(edge.weight), edge.type.name)
        for edge in sorted(graph.critical_path_edges_set, key=lambda e: graph.node_list[e.end].ts)
    ]
    assert (30, "OPERATOR_KERNEL") in on_path and (start.idx, end.idx) in {
        (e.begin, e.end) for e in graph.critical_path_edges_set
    }
    assert path["duration"].sum() == sum(weight for weight, _ in on_path) and {1, 4} <= graph.critical_path_events_set
    assert sum(graph.edges[e.begin, e.end]["weight"] for e in graph.critical_path_edges_set) >= 2 + 20 + 500 + 10
    graph.edges[start.idx, end.idx]["weight"] = 30
    assert (
        graph.critical_path()
        and graph.get_critical_path_breakdown()["duration"].sum() == before["duration"].sum() == 87
    )


def test_threads_of_a_call_graph(tmp_path):
    document = recording()
    document["traceEvents"] += [
        event("cpu_op", "autograd::engine::evaluate_function: x", 15, 5, tid=12),
        event("cpu_op", "loader", 5, 5, tid=3),
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    frame = CallGraph(Trace(trace_files={0: str(path)}, trace_dir="")).mapping
    assert frame.values.tolist() == [
        [0, 1, 1, "main", 0, -1, 1],
        [0, 1, 3, "loader", 1, -3, 1],
        [0, 1, 12, "bwd", 2, -1, 2],
    ]
    assert list(frame.columns) == ["rank", "pid", "tid", "label", "stack_index", "stack_root", "count"]


# ---- names -------------------------------------------------------------------------------------------------


def test_counters_of_one_kind(tmp_path):
    analysis = TraceAnalysis(trace_files={0: written(tmp_path)}, trace_dir="")
    for chosen, want in (
        (TimeSeriesTypes.QUEUE_LENGTH, {"Queue Length"}),
        (TimeSeriesTypes.MEMCPY_BANDWIDTH, {"Memcpy DtoH"}),
        (TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH, {"Queue Length", "Memcpy DtoH"}),
        (None, {"Queue Length", "Memcpy DtoH"}),
    ):
        analysis.generate_trace_with_counters(chosen, output_suffix="_c")
        events = json.loads((tmp_path / "rank-0_c.json").read_text())["traceEvents"]
        assert {e["name"] for e in events if e["ph"] == "C"} == want


def test_patterns():
    assert types.KERNEL_CATEGORY_PATTERN.match("gpu_memset") and not types.KERNEL_CATEGORY_PATTERN.match("cpu_op")
    other = types.to_grouping_pattern(["^a", "b"], "mine", inverse_match=True)
    assert (other.match("bc"), other.match("cb"), other.group_name) == (False, True, "mine")
    assert types.to_grouping_pattern(re.compile("x")).match("xy") and types.to_grouping_pattern(other) is other
    frame = pandas.DataFrame({"stream": [7, 20], "pid": [0, 0], "tid": [7, 20]})
    assert (
        types.infer_device_type(frame) is types.DeviceType.GPU
        and types.infer_device_type(frame.assign(stream=-1, pid=4)) is types.DeviceType.CPU
    )
    assert (
        types.infer_device_type(pandas.DataFrame({"ts": [1]})) is types.DeviceType.UNKNOWN
        and CUDA_MAX_LAUNCH_QUEUE_PER_STREAM == 1024
    )


def test_symbols():
    frame = pandas.DataFrame({"cat": ["cpu_op", "kernel"], "name": ["aten::mm", "void gemm<float>(int)"]})
    made = TraceSymbolTable.create_from_df(frame)
    made.encode_df(frame)
    assert made.sym_table == ["cpu_op", "kernel", "aten::mm", "void gemm<float>(int)"] and frame.values.tolist() == [
        [0, 2],
        [1, 3],
    ]
    assert TraceSymbolTable.clone(made).sym_index == made.sym_index and made.get_symbol_ids(
        types.KERNEL_CATEGORY_PATTERN
    ) == {"kernel": 1}
    assert (
        TraceSymbolTable.combine_symbol_tables(
            [made, TraceSymbolTable.create_from_symbol_id_map({"b": 1, "cpu_op": 0})]
        ).sym_table[-1]
        == "b"
    )
    assert (
        made.get_cpu_event_cat_ids(),
        made.get_gpu_kernel_cat_ids(),
        made.get_kernel_launch_ids(),
        made.get_memory_name_ids(),
    ) == ([0], [1], [], [])
    assert get_symbol_column_names(frame) == ("", "")
    decode_symbol_id_to_symbol_name(frame, made, use_shorten_name=True)
    assert frame["s_name"].tolist() == ["aten::mm", "gemm"] and get_symbol_column_names(frame) == ("s_name", "s_cat")


def test_intervals_and_flat_columns():
    rows = pandas.DataFrame({"ts": [10, 0, 4, 30], "dur": [5, 5, 6, 1]})
    assert merge_kernel_intervals(rows).values.tolist() == [[0, 15], [30, 31]] and list(rows.columns) == ["ts", "dur"]
    frame = pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([("a", ""), ("b", "c")]))
    flatten_column_names(frame)
    assert list(frame.columns) == ["a", "b_c"]
