"""Every public attribute of the events and averages of a window, beside torch.profiler's of the same program: value,
type and order. A row of docs/tables.md states each intended difference. And which profilers see our labels."""

import collections
import inspect
import json
import logging
import pathlib
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph
import torch.profiler as theirs
from tachograph import profiler as ours

CPU = theirs.ProfilerActivity.CPU
ROWS = (pathlib.Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
# Attributes that differ, each with its text in docs/tables.md.
ON_PURPOSE = {
    "thread": "the system's thread id",
    "device_resource_id": "the system's thread id",  # of [memory]: its thread
    "fwd_thread": "the system's thread id",
    "overload_name": "empty without `capture_overload_names`",
    "stack": "no stacks",
}
COARSE = "times in microseconds"
if "start_us" in inspect.signature(torch.autograd.profiler_util.MemRecordsAcc.in_interval).parameters:  # torch 2.4
    ON_PURPOSE.update(cpu_memory_usage=COARSE, self_cpu_memory_usage=COARSE)
NUMBERED = "expose_kineto_event_metadata" in torch._C._profiler._ExperimentalConfig.__init__.__doc__
FUNCTION = re.compile(r".*\(\d+\): |<.*>$|nn\.Module: ")  # names of Python functions; torch 2.4 says it no other way


def of_python(event):
    return getattr(event, "is_python_function", bool(FUNCTION.match(event.name)))


@pytest.fixture(scope="module", params=["plain", "numbered", "stacks"])
def pair(request):
    if request.param == "numbered" and not NUMBERED:
        pytest.skip("this torch gives events no numbers")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    x = torch.randn(4, 8)

    def work(module):
        with module.record_function("label"):
            y = model(x)
        y.sum().backward()
        torch.add(x, 2, alpha=3)

    work(theirs)
    windows = []
    for module in (theirs, ours):
        config = None
        if request.param == "numbered":
            config = torch._C._profiler._ExperimentalConfig(expose_kineto_event_metadata=True)
        with module.profile(
            activities=[CPU],
            record_shapes=True,
            profile_memory=request.param != "stacks",
            with_stack=request.param == "stacks",
            with_flops=True,
            experimental_config=config,
        ) as prof:
            work(module)
        windows.append(prof)
    return windows


def shown(event, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = getattr(event, name)
    if name == "cpu_parent":
        return getattr(value, "name", None)
    if name == "cpu_children":
        return [child.name for child in value or [] if not of_python(child)]
    if name == "sequence_nr":
        return value >= 0
    if name == "time_range":
        return type(value).__name__, type(value.start), type(value.end)
    return value


def differences(pairs):
    """Attribute → first difference."""
    found = {}
    names = [n for n in dir(pairs[0][0]) if not n.startswith("_")]
    for a, b in pairs:
        for name in names:
            left, right = shown(a, name), shown(b, name)
            if callable(left):
                assert callable(right), name
                continue
            timed = isinstance(left, float) or name.endswith("_str")
            if type(left) is not type(right) or (not timed and left != right):
                found.setdefault(name, (a.key, left, right))
    return found


def test_events(pair):
    lists = [[e for e in prof.events() if not of_python(e)] for prof in pair]
    assert [e.name for e in lists[0]] == [e.name for e in lists[1]]
    found = differences([p for p in zip(*lists, strict=True) if p[0].name != "[memory]"])
    # torch's list of functions has its own frames; that of 2.4 has no functions.
    inside_functions = {"cpu_parent", "cpu_children"} if pair[0].with_stack else set()
    assert set(found) - {"id", "external_id"} - inside_functions <= set(ON_PURPOSE), found
    memory = differences([p for p in zip(*lists, strict=True) if p[0].name == "[memory]"] or [lists])
    assert set(memory) - {"id", "external_id"} - inside_functions <= set(ON_PURPOSE), memory
    for name in {*found, *memory} & set(ON_PURPOSE):
        assert ON_PURPOSE[name] in ROWS


def test_averages(pair):
    averages = [{e.key: e for e in prof.key_averages() if "(" not in e.key and "<" not in e.key} for prof in pair]
    functions = set(averages[0]) ^ set(averages[1])
    assert all(key.startswith("nn.Module") for key in functions)
    found = differences([(averages[0][key], averages[1][key]) for key in averages[0] if key not in functions])
    inside_functions = {"cpu_parent", "cpu_children"} if pair[0].with_stack else set()
    assert set(found) - inside_functions <= set(ON_PURPOSE), found


def test_ids_are_those_of_the_exported_trace(pair, tmp_path):
    prof = pair[1]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    written = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    own = [e for e in written if e.get("cat") in ("cpu_op", "user_annotation", "python_function")]
    fields = ("External id", 0), ("Python id", -1), ("Python parent id", -1)
    exported = collections.Counter((e["name"], *(e["args"].get(key, default) for key, default in fields)) for e in own)
    events = collections.Counter(
        (e.trace_name, e.external_id, e.python_id, e.python_parent_id)
        for e in prof.events()
        if e.activity_type in ("cpu_op", "user_annotation", "python_function")
    )
    assert events <= exported
    assert all(row[0] == "aten::sum" for row in exported - events)  # called by its like: torch's list has one of them
    assert len({row[1] for row in exported if row[1]}) == sum(e["cat"] != "python_function" for e in own)


def test_fields_of_memory_events(pair, tmp_path):
    fields = []
    for number, prof in enumerate(pair):
        prof.export_chrome_trace(str(tmp_path / f"{number}.json"))
        written = json.loads((tmp_path / f"{number}.json").read_text())["traceEvents"]
        fields.append(
            {
                (key, value if key in ("finished", "Device Id", "Device Type", "Total Reserved") else type(value))
                for event in written
                if event["name"] == "[memory]"
                for key, value in event["args"].items()
            }
        )
    assert fields[0] <= fields[1]
    assert bool(fields[0]) == pair[0].profile_memory


@pytest.mark.skipif(
    not hasattr(torch.autograd.profiler_util.FunctionEvent, "metadata_json"), reason="not in this torch"
)
def test_metadata_json(pair):
    event = next(e for e in pair[1].events() if e.name == "aten::t")
    theirs_too = next(e for e in pair[0].events() if e.name == "aten::t")
    assert shown(event, "metadata_json") == shown(theirs_too, "metadata_json")


def test_other_profilers_see_our_labels(tmp_path):
    def work():
        with tachograph.record_function("ours"):
            torch.ones(2).sin()

    with theirs.profile(activities=[CPU]) as prof:
        work()
    with torch.autograd.profiler.profile() as old:
        work()
    for events in (prof.events(), old.function_events):
        assert [e.name for e in events].count("ours") == 1
    with theirs.profile(activities=[CPU]) as prof, ours.profile(activities=[CPU], backend="native") as beside:
        work()
    for events in (prof.events(), beside.events()):
        assert [e.name for e in events].count("ours") == 1
    assert [e.name for e in beside.events() if e.cpu_parent and e.cpu_parent.name == "ours"]

    for name, package in (("alone", tachograph), ("torch", theirs)):
        alone = package.ExecutionTraceObserver().register_callback(str(tmp_path / f"{name}.json"))
        alone.start()
        work()
        alone.stop()
        alone.unregister_callback()
    observer = theirs.ExecutionTraceObserver().register_callback(str(tmp_path / "beside.json"))
    with ours.profile(activities=[CPU], backend="native", execution_trace_observer=observer) as prof:
        work()
    observer.unregister_callback()
    assert [e.name for e in prof.events()].count("ours") == 1
    for name in ("alone", "torch", "beside"):
        nodes = json.loads((tmp_path / f"{name}.json").read_text())["nodes"]
        assert [n["name"] for n in nodes].count("ours") == 1
        assert "[pytorch|profiler|execution_trace|process]" in [n["name"] for n in nodes]
    with ours.profile(activities=[CPU], backend="native") as prof:  # no other profiler watches any more
        work()
    (label,) = [e for e in prof.events() if e.name == "ours"]
    assert label.is_user_annotation


def test_no_time_for_post_processing(caplog):
    with ours.profile(activities=[CPU], post_processing_timeout_s=0) as prof:
        torch.ones(2).sin()
    with caplog.at_level(logging.WARNING, "torch.autograd.profiler"):
        names = [e.name for e in prof.events()]
    assert "aten::sin" in names
    assert [r.name for r in caplog.records] == ["torch.autograd.profiler"]
    assert "timed out" in caplog.text and "partial results" in caplog.text  # torch's words
