"""Signatures and names of the drop-in, against those of torch 2.15 as they stand written here, and against the torch
that is installed."""

import inspect
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import profiler
from tachograph.autograd import profiler as autograd_profiler

NOTHING = inspect.Parameter.empty
GONE = {"metadata_json"}  # parameters that 2.15 no longer has: here they come last
PROFILE = {
    "activities": None,
    "schedule": None,
    "on_trace_ready": None,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "experimental_config": None,
    "execution_trace_observer": None,
    "acc_events": False,
    "custom_trace_id_callback": None,
    "post_processing_timeout_s": None,
}
PROFILE_OURS = {
    "use_cuda",
    "preset",
    "keep_last",
    "memory_budget",
    "disk_budget",
    "backend",
    "nvtx",
}  # use_cuda: gone from 2.15, still passed
LOW_LEVEL = {name: value for name, value in PROFILE.items() if name not in ("schedule", "on_trace_ready")}

METHODS = {
    "start": {},
    "stop": {},
    "prepare_trace": {},
    "start_trace": {},
    "stop_trace": {},
    "step": {},
    "events": {},
    "wait_for_exports": {},
    "take_pending_cuspy_export": {},
    "take_pending_cupti_export": {},
    "get_trace_id": {},
    "_memory_profile": {},
    "_stats": {},
    "_get_distributed_info": {},
    "export_chrome_trace": {
        "path": NOTHING,
        "use_python_export": False,
        "cuda_graph_annotations": None,
        "graph_lanes": "none",
        "default_stream": 7,
    },
    "export_stacks": {"path": NOTHING, "metric": "self_cpu_time_total"},
    "toggle_collection_dynamic": {"enable": NOTHING, "activities": NOTHING},
    "key_averages": {
        "group_by_input_shape": False,
        "group_by_stack_n": 0,
        "group_by_overload_name": False,
        "include_python_functions": False,
    },
    "add_metadata": {"key": NOTHING, "value": NOTHING},
    "add_metadata_json": {"key": NOTHING, "value": NOTHING},
    "preset_metadata_json": {"key": NOTHING, "value": NOTHING},
    "export_memory_timeline": {"path": NOTHING, "device": None},
    "set_custom_trace_id_callback": {"callback": NOTHING},
}
PUBLIC = [
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "DeviceType",
    "record_function",
    "ExecutionTraceObserver",
    "CuspyConfig",
    "PerformanceMetricsConfig",
    "ProfilerActivityConfig",
]


def parameters(function):
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if name != "self"}


def test_profile():
    found = parameters(tg.profile)
    assert list(found)[: len(PROFILE)] == list(PROFILE)
    assert {name: found[name] for name in PROFILE} == PROFILE
    assert set(found) - set(PROFILE) == PROFILE_OURS
    assert all(
        p.kind is p.KEYWORD_ONLY
        for name, p in inspect.signature(tg.profile.__init__).parameters.items()
        if name != "self"
    )


def test_low_level_profile():
    found = parameters(tg._KinetoProfile)
    assert list(found)[: len(LOW_LEVEL)] == list(LOW_LEVEL)
    assert {name: found[name] for name in LOW_LEVEL} == LOW_LEVEL


@pytest.mark.parametrize("name", METHODS)
def test_method(name):
    assert parameters(getattr(tg.profile, name)) == METHODS[name]
    assert list(parameters(getattr(tg.profile, name))) == list(METHODS[name])


def test_functions():
    assert parameters(tg.schedule) == {
        "wait": NOTHING,
        "warmup": NOTHING,
        "active": NOTHING,
        "repeat": 0,
        "skip_first": 0,
        "skip_first_wait": 0,
    }
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(tg.schedule).parameters.values())
    assert parameters(tg.tensorboard_trace_handler) == {
        "dir_name": NOTHING,
        "worker_name": None,
        "use_gzip": False,
        "use_python_export": False,
    }
    assert parameters(tg.supported_activities) == parameters(tg.kineto_available) == {}


def test_every_public_name():
    assert sorted(profiler.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(tg, name) is getattr(profiler, name)
        assert name in tg.__all__ and name in dir(tg)
    assert profiler.KinetoStepTracker.current_step() >= 0
    assert tg.itt is torch.profiler.itt and tg.RecordScope is torch.profiler.RecordScope
    with pytest.raises(AttributeError, match="no attribute 'profil'"):
        tg.profil


def test_nothing_of_the_installed_torch_is_missing():
    """Each method and parameter that this torch has is here too, with the same default."""
    assert set(torch.profiler.__all__) <= set(profiler.__all__)
    for theirs, ours in ((torch.profiler.profile, tg.profile), (torch.profiler._KinetoProfile, tg._KinetoProfile)):
        for name, value in parameters(theirs).items():
            assert parameters(ours)[name] == value
        for name, function in vars(theirs).items():
            if inspect.isfunction(function) and not name.startswith("_"):
                missing = parameters(function).items() - parameters(getattr(ours, name)).items()
                assert not missing, (name, missing)
    for name, _member in vars(torch.profiler.ExecutionTraceObserver).items():
        assert hasattr(tg.ExecutionTraceObserver, name)
    theirs, ours = ([(a.name, a.value) for a in package.ProfilerAction] for package in (torch.profiler, tg))
    assert theirs == (
        ours if hasattr(torch.profiler.ProfilerAction, "DEVICE_STOPPED") else ours[:4]
    )  # torch 2.4 has four
    assert tg.ProfilerActivity is torch.profiler.ProfilerActivity


@pytest.mark.parametrize("name", ["FunctionEvent", "FunctionEventAvg", "EventList", "Interval", "Kernel", "profile"])
def test_methods_of_the_installed_torch(name):
    """Of the classes that events come in: each method, with the parameters and defaults of this torch, in their order.
    `profile.config` has a row in docs/tables.md."""
    theirs, ours = (getattr(module, name, None) for module in (torch.autograd.profiler_util, autograd_profiler))
    theirs = theirs or getattr(torch.autograd.profiler, name)
    methods = {n: f for n, f in inspect.getmembers(theirs, inspect.isfunction) if n == "__init__" or n[0] != "_"}
    assert "__init__" in methods or issubclass(theirs, tuple)
    for method, function in methods.items() - {("config", getattr(theirs, "config", None))}:
        given, own = (inspect.signature(f).parameters for f in (function, getattr(ours, method)))
        given = {n: p for n, p in given.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        for parameter, value in given.items():
            assert own[parameter].kind == value.kind, (method, parameter)
            assert value.default in (own[parameter].default, NOTHING), (method, parameter)
        by_place = [n for n, p in given.items() if p.kind is p.POSITIONAL_OR_KEYWORD and n not in GONE]
        assert [n for n in own if n in by_place] == by_place, method
    assert list(inspect.signature(ours).parameters)[-1:] == ["metadata_json"] or name != "FunctionEvent"


# What the installed torch has and ours takes from there, or does without; a new name of torch is in neither list.
TORCHS_OWN = {
    "profiler": "the module, for its helpers",
    "ProfilerConfig": "what torch's collector is started with",
    "kineto_available": "in tachograph.profiler",
    "python_tracer": "the module, where something imported it: what torch's collector takes stacks with",
    "MemoryProfile": "of torch's memory timeline; tachograph.memory has ours",
    "MemoryProfileTimeline": "of torch's memory timeline; tachograph.memory has ours",
    "EventMetadata": "what torch's parser fills its events from",
    "FormattedTimesMixin": "a base of torch's events",
    "StringTable": "a part of torch's parser",
    "EventList(kwargs)": "passed to list(), which takes none",
    "profile.config": "has a row in docs/tables.md",
}
WATCHED = [
    ("torch.profiler", profiler),
    ("torch.profiler.profiler", profiler),
    ("torch.autograd.profiler", autograd_profiler),
    ("torch.autograd.profiler_util", autograd_profiler),
]


def is_public(module, name, value):
    """Listed, a submodule, or defined in the profiler; not what it imports."""
    if name.startswith("_"):
        return False
    if inspect.ismodule(value):
        return value.__name__.startswith("torch.profiler.")
    home = getattr(value, "__module__", None) or ""
    return name in getattr(module, "__all__", ()) or home.startswith(("torch.profiler", "torch.autograd.profiler"))


def lacking_parameters(name, theirs, ours):
    try:
        given, own = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    except (TypeError, ValueError):  # of C
        return
    for parameter, value in given.items():
        same = parameter in own and (own[parameter].kind, own[parameter].default) == (value.kind, value.default)
        if not same and not (parameter in own and value.default is NOTHING and own[parameter].kind is value.kind):
            yield f"{name}({parameter})"


def drift(theirs, ours):
    """Each public name that `theirs` defines and `ours` only forwards or lacks, and each member and parameter."""
    for name, value in vars(theirs).items():
        if not is_public(theirs, name, value):
            continue
        own = vars(ours).get(name)
        if own is None:
            yield name
        elif own is not value and inspect.isclass(value):
            yield from lacking_parameters(name, value, own)
            for member in (m for m in dir(value) if not m.startswith("_")):
                if not hasattr(own, member):
                    yield f"{name}.{member}"
                elif inspect.isfunction(getattr(value, member)):
                    yield from lacking_parameters(f"{name}.{member}", getattr(value, member), getattr(own, member))
        elif own is not value and callable(value):
            yield from lacking_parameters(name, value, own)


@pytest.mark.parametrize(("module", "ours"), WATCHED, ids=[name for name, _ in WATCHED])
def test_torch_has_nothing_new(module, ours):
    """With a newer torch this names what it has and ours lacks."""
    lacking = [line for line in drift(sys.modules[module], ours) if line not in TORCHS_OWN]
    assert not lacking, f"torch {torch.__version__}, {module}: {lacking}"


def test_the_watch_sees_each_kind_of_drift():
    def module(text):
        made = types.ModuleType("torch.profiler.later")
        exec(text, made.__dict__)
        return made

    ours = module("class profile:\n def __init__(self, a, b=1): ...\n def step(self): ...\ndef schedule(*, wait): ...")
    later = module(
        "class profile:\n def __init__(self, a, b=2): ...\n def step(self, kind=None): ...\n def flush(self): ...\n"
        "def schedule(*, wait, cooldown=0): ...\ndef analyze(): ...\ndef _own(): ..."
    )
    for made in (ours, later):
        for value in vars(made).values():
            if callable(value):
                value.__module__ = "torch.profiler.later"
    assert set(drift(later, ours)) == {
        "profile(b)",
        "profile.step(kind)",
        "profile.flush",
        "schedule(cooldown)",
        "analyze",
    }
    assert not list(drift(ours, ours))


def test_import_is_cheap():
    """`import tachograph` and reading a trace load no torch; the first name that records does."""
    program = (
        "import sys, tachograph as tg; assert 'torch' not in sys.modules; tg.questions(); dir(tg); "
        "assert 'torch' not in sys.modules; tg.profile; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_reading_works_without_torch():
    program = (
        "import sys; sys.modules['torch'] = None; import tachograph as tg; assert tg.questions()\n"
        "try: tg.profile\nexcept ImportError as e: assert 'torch' in str(e)\nelse: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
