"""Activities, configuration classes and experimental configurations as torch 2.15 takes them, and older spellings."""

import dataclasses
import inspect
import json
import os
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import CPU, CUDA, needs_no_cuda
from tachograph._collect.config import ExperimentalConfig, read_experimental

FIELDS_15 = [
    "verbose",
    "performance_events",
    "enable_cuda_sync_events",
    "adjust_profiler_step",
    "disable_external_correlation",
    "profile_all_threads",
    "capture_overload_names",
    "record_python_gc_info",
    "expose_kineto_event_metadata",
    "custom_profiler_config",
    "adjust_timestamps",
    "trace_only",
]


# torch 2.4 records all types of an activity, which we say.
SELECTS_TYPES = "dict" in str(inspect.signature(torch.profiler.profile).parameters["activities"].annotation)
CANNOT_SELECT = pytest.mark.filterwarnings("ignore:torch .* cannot select activity types")


# ---- activities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activities, error, text",
    [
        ([CPU, CPU], ValueError, "^Activity ProfilerActivity.CPU specified more than once$"),
        ([CPU, {CPU: ["CPU_OP"]}], ValueError, "^Activity ProfilerActivity.CPU specified more than once$"),
        (["cpu"], TypeError, "^Expected ProfilerActivity or dict, got <class 'str'>$"),
        ([{"cpu": []}], TypeError, "^Expected ProfilerActivity or dict, got <class 'str'>$"),
        ([], AssertionError, "^No valid profiler activities found$"),
        ([{CPU: "CPU_OP"}], TypeError, "a list of names"),
    ],
)
def test_wrong_activities(activities, error, text):
    with pytest.raises(error, match=text):
        tg.profile(activities=activities)


@CANNOT_SELECT
def test_activity_types():
    prof = tg.profile(activities=[{CPU: tg.ProfilerActivityConfig(["cpu_op", "USER_ANNOTATION"], [tg.CuspyConfig()])}])
    assert prof.activities == {CPU}
    assert prof.activity_filters == {CPU: {"CPU_OP", "USER_ANNOTATION"}}
    assert prof.activity_configs[CPU].profiler_configs == [tg.CuspyConfig()]
    assert tg.profile(activities=[{CPU: None}]).activity_filters == {}
    assert tg.profile(activities=[CPU]).activity_configs == {}
    with prof:
        with tg.record_function("label"):
            torch.ones(2).add(1)
    assert "aten::add" in {row["name"] for row in prof.trace.ask("events")}


@pytest.mark.skipif(SELECTS_TYPES, reason="this torch selects types")
def test_all_types_of_an_old_torch():
    with pytest.warns(UserWarning, match="^torch 2.* cannot select activity types: all of CPU are recorded$") as caught:
        with tg.profile(activities=[{CPU: ["USER_ANNOTATION"]}]) as prof:
            torch.ones(2).add(1)
    assert caught[0].filename == __file__ and "aten::add" in {row["name"] for row in prof.trace.ask("events")}


@pytest.mark.skipif(not SELECTS_TYPES, reason="this torch knows no names of types")
def test_unknown_activity_type():
    with pytest.raises(RuntimeError, match="Unknown or non-member activity type name: 'NOPE'"):
        tg.profile(activities=[{CPU: ["nope"]}]).start()


@needs_no_cuda
def test_use_cuda():
    with pytest.warns(FutureWarning, match="^`use_cuda` is deprecated, use `activities` argument instead$") as caught:
        assert tg.profile(activities=[CPU], use_cuda=False).activities == {CPU}
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert tg.profile(activities=[CPU], use_cuda=True).activities == {CPU, CUDA}
    with pytest.raises(AssertionError, match="No valid profiler activities found"), pytest.warns(FutureWarning):
        tg.profile(activities=[CUDA], use_cuda=False)


def test_supported():
    assert tg.supported_activities() == torch.profiler.supported_activities()
    assert tg.kineto_available() == torch.autograd.kineto_available()


def test_timeout():
    with pytest.raises(ValueError, match="post_processing_timeout_s must be non-negative"):
        tg.profile(post_processing_timeout_s=-1)
    assert tg.profile(post_processing_timeout_s=0).post_processing_timeout_s == 0


# ---- configuration classes ---------------------------------------------------------------------------------


def test_configuration_classes():
    assert repr(tg.CuspyConfig(enable_graph_dependencies=True)) == (
        "CuspyConfig(enable_cuda_sync_events=False, enable_environment_counters=False, enable_graph_dependencies=True, "
        "enable_event_node_ids=False)"
    )
    assert repr(tg.PerformanceMetricsConfig(["sm__cycles"])) == (
        "PerformanceMetricsConfig(metric_names=['sm__cycles'], sampling_interval_ms=None, lookback_window_ms=None)"
    )
    assert repr(tg.ProfilerActivityConfig()) == "ProfilerActivityConfig(activity_types=None, profiler_configs=[])"
    for config in (tg.CuspyConfig(), tg.PerformanceMetricsConfig([]), tg.ProfilerActivityConfig()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, dataclasses.fields(config)[0].name, None)


# ---- experimental configurations ---------------------------------------------------------------------------


def test_fields_of_2_15():
    names = [f.name for f in dataclasses.fields(tg._ExperimentalConfig)]
    assert names == FIELDS_15 + ["profiler_metrics", "profiler_measure_per_kernel"]
    assert tg._ExperimentalConfig(True, ["cycles"]).verbose is True  # verbose comes first, as in 2.15
    assert pickle.loads(pickle.dumps(tg._ExperimentalConfig(trace_only=True))).trace_only


class Torch:
    """torch's own class as far as we rely on it: its state."""

    def __init__(self, *state):
        self.state = state

    def __getstate__(self):
        return self.state


@pytest.mark.parametrize(
    "state",
    [
        (
            ["metric"],
            True,
            True,
            [b"cycles"],
            True,
            True,
            True,
            True,
            True,
            True,
            True,
            "{}",
            True,
            True,
        ),  # 2.13: 14 members, metrics first
        (
            True,
            [b"cycles"],
            True,
            True,
            True,
            True,
            True,
            True,
            True,
            b"{}",
            True,
            True,
        ),  # 2.15: 12 members, verbose first
    ],
)
def test_state_of_torch(state):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = read_experimental(Torch(*state))
    expected = dict.fromkeys(FIELDS_15, True) | {"performance_events": ["cycles"], "custom_profiler_config": "{}"}
    assert {name: getattr(config, name) for name in FIELDS_15} == expected
    assert config.profiler_metrics == (["metric"] if len(state) == 14 else [])


def test_short_state_of_an_older_torch():
    config = read_experimental(Torch([], False, True, [], True, False))
    assert config == ExperimentalConfig(verbose=True, enable_cuda_sync_events=True)


@pytest.mark.parametrize(
    "name",
    [
        "verbose",
        "enable_cuda_sync_events",
        "profile_all_threads",
        "capture_overload_names",
        "record_python_gc_info",
        "trace_only",
        "adjust_timestamps",
        "disable_external_correlation",
        "expose_kineto_event_metadata",
    ],
)
def test_own_class_of_this_torch(name):
    theirs = torch._C._profiler._ExperimentalConfig
    if f"{name}:" not in theirs.__init__.__doc__:
        pytest.skip(f"this torch has no {name}")
    assert read_experimental(theirs(**{name: True})) == ExperimentalConfig(**{name: True})


def test_removed_and_ignored_settings_warn():
    with pytest.warns(FutureWarning, match="adjust_profiler_step has no effect"):
        tg._ExperimentalConfig(adjust_profiler_step=True)
    with pytest.warns(FutureWarning, match="profiler_metrics and profiler_measure_per_kernel have no effect"):
        tg._ExperimentalConfig(profiler_metrics=["x"])
    with pytest.raises(TypeError, match="experimental_config must be an _ExperimentalConfig, not dict"):
        tg.profile(experimental_config={"verbose": True})


def test_trace_only(tmp_path):
    with pytest.warns(UserWarning, match="trace_only=True is incompatible with with_stack=True"):
        tg.profile(experimental_config=tg._ExperimentalConfig(trace_only=True), with_stack=True)
    with tg.profile(experimental_config=tg._ExperimentalConfig(trace_only=True), activities=[CPU]) as prof:
        torch.ones(2)
    with pytest.raises(RuntimeError, match="trace_only=True"):
        prof.events()
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text())["traceEvents"]


# ---- options of export_chrome_trace and the memory profile -------------------------------------------------


def test_graph_lanes(tmp_path):
    with tg.profile(activities=[CPU]) as prof:
        torch.ones(2)
    path = str(tmp_path / "a.json")
    with pytest.raises(ValueError, match="graph_lanes='some'"):
        prof.export_chrome_trace(path, graph_lanes="some")
    with pytest.raises(ValueError, match="cuda_graph_annotations"):
        prof.export_chrome_trace(path, graph_lanes="all", cuda_graph_annotations={})
    prof.export_chrome_trace(path, cuda_graph_annotations={7: {"layer": "a"}}, graph_lanes="all")
    assert "cudaGraphInlineAnnotated" not in json.loads(open(path).read())  # no graph, nothing to annotate


def test_graph_annotations(tmp_path):
    from tachograph._profile.graph_lanes import bake_annotations

    path = tmp_path / "gpu.json"

    def kernel(name, node):
        return {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": 1,
            "dur": 1,
            "args": {"stream": 7, "graph node id": node},
        }

    path.write_text(json.dumps({"traceEvents": [kernel("a", 5), kernel("b", 6), kernel("c", 0)]}))
    bake_annotations(str(path), {5: {"layer": 3, "stream": 20, "Process Group Description": "tp"}}, "all", 9)
    document = json.loads(path.read_text())
    a, b, c, *rows = document["traceEvents"]
    assert document["cudaGraphInlineAnnotated"] is True
    assert (a["tid"], a["args"]) == (
        20,
        {
            "stream": 20,
            "graph node id": 5,
            "layer": "3",
            "annotated_stream": "20",
            "Process Group Description": "tp",
            "original_stream": 7,
        },
    )
    assert (b["tid"], b["args"]["stream"], b["args"]["original_stream"]) == (9, 9, 7)
    assert c["tid"] == 7 and "original_stream" not in c["args"]
    assert {(r["tid"], r["args"]["name"]) for r in rows} == {(20, "tp"), (9, "stream 9 ")}


@pytest.mark.parametrize("on", [(), ("record_shapes",), ("with_stack", "profile_memory")])
def test_memory_profile_needs_three_flags(on):
    missing = [f"{name}=True" for name in ("record_shapes", "profile_memory", "with_stack") if name not in on]
    messages = []
    for make in (tg.profile, torch.profiler.profile):
        with pytest.raises(ValueError) as caught:
            make(activities=[CPU], **dict.fromkeys(on, True))._memory_profile()
        messages.append(str(caught.value))
    assert messages == [f"{', '.join(missing)} required for memory profiling."] * 2


# ---- execution traces --------------------------------------------------------------------------------------


def test_execution_trace(tmp_path):
    path = tmp_path / "graph.json"
    observer = tg.ExecutionTraceObserver().register_callback(str(path))
    assert observer.is_registered and not observer.is_running() and observer.get_output_file_path() == str(path)
    seen = []
    with tg.profile(
        activities=[CPU],
        schedule=tg.schedule(wait=1, warmup=0 + 1, active=1, repeat=1),
        execution_trace_observer=observer,
    ) as prof:
        for operator in (torch.sin, torch.cos, torch.tan, torch.exp):
            operator(torch.ones(2))
            seen.append(observer.is_running())
            prof.step()
    assert seen == [False, False, True, False] and not observer.is_registered
    found = {node["name"] for node in json.loads(path.read_text())["nodes"]}
    assert "aten::tan" in found and not found & {"aten::sin", "aten::cos", "aten::exp"}


def test_execution_trace_by_environment(monkeypatch):
    assert tg.profile().execution_trace_observer is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "1")
    with tg.profile(activities=[CPU]) as prof:
        torch.ones(2).add(1)
        path = prof.execution_trace_observer.get_output_file_path()
    assert path.endswith(".et.json") and os.path.isdir(path[: -len(".json")] + "_resources")
    assert "aten::add" in {node["name"] for node in json.loads(open(path).read())["nodes"]}
    os.unlink(path)
