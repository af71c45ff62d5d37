"""Which collector records, and the message when it is not ours."""

import json
import subprocess
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
import tachograph._say
from recording import BACKENDS, CPU, names
from tachograph import _doctor, _record
from tachograph._collect import backend
from tachograph._collect.backend import Recipe
from tachograph._collect.native import NativeRecording
from tachograph._collect.torch_side import TorchSide

native = pytest.mark.skipif("native" not in BACKENDS, reason="this build has no recorder")


@pytest.fixture(autouse=True)
def said_anew(monkeypatch):
    monkeypatch.setattr(tachograph._say, "_said", set())
    monkeypatch.delenv("TACHOGRAPH_BACKEND", raising=False)


def kind(**arguments):
    with tg.profile(activities=arguments.pop("activities", [CPU]), **arguments) as prof:
        with tg.record_function("label"):
            torch.ones(2).erf()
    assert {"aten::erf", "label"} <= set(names(prof))
    return prof._windows[-1].kind


@native
def test_ours_by_default():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind() == "native"
        assert kind(record_shapes=True, profile_memory=True, with_flops=True) == "native"


@native
@pytest.mark.frames
def test_ours_with_stacks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind(with_stack=True) == "native"


def test_backend_of_the_environment(monkeypatch):
    monkeypatch.setenv("TACHOGRAPH_BACKEND", "kineto")
    assert kind() == "kineto"
    if "native" in BACKENDS:
        assert kind(backend="native") == "native"  # the script's choice goes first


@native
@pytest.mark.filterwarnings("ignore:torch .* cannot select activity types")
def test_what_only_torch_has():
    assert kind(activities=[{CPU: ["CPU_OP", "USER_ANNOTATION"]}]) == "kineto"


@pytest.mark.parametrize(
    "more, why",
    [
        (dict(), None),
        (dict(with_stack=True, profile_memory=True), None),
        (dict(activities=[{CPU: ["CPU_OP"]}]), "single activity types"),
        (dict(experimental_config=tg._ExperimentalConfig(performance_events=["cycles"])), "performance events"),
    ],
)
def test_why_it_is_torch(more, why):
    reason = tg.profile(**{"activities": [CPU], **more})._recipe().only_kineto()
    assert reason is None if why is None else reason.startswith(why)


def test_amd_devices_are_torchs(monkeypatch):
    recipe = Recipe(activities=frozenset([CPU]), use_device="cuda")
    assert recipe.only_kineto() is None
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert recipe.only_kineto() == "work on cuda is collected by torch's own collector"


@native
def test_failed_self_test(monkeypatch):
    """One sentence with the evidence, once; then torch's collector does it."""
    from tachograph._collect import native as collector

    monkeypatch.setattr(collector, "available", lambda: (False, "operators: this torch is not understood: 17 is not 4"))
    with pytest.warns(
        UserWarning,
        match="^recording with torch's own collector: operators: this torch is not understood: 17 is not 4$",
    ) as caught:
        assert [kind(), kind()] == ["kineto", "kineto"]
    assert len([w for w in caught if "own collector" in str(w.message)]) == 1 and caught[0].filename == __file__
    with pytest.raises(
        RuntimeError, match="backend='native' cannot be had here: operators: this torch is not understood"
    ):
        tg.profile(backend="native").start()
    assert kind() == "kineto"


def test_torchs_collector_prints_none_of_its_log(capfd):
    """torch 2.13 prints a line at each start and stop. Its level is left as it was."""
    prof = tg.profile(backend="kineto")
    prof.start()
    torch.erf(torch.ones(3))
    prof.stop()
    assert [e.name for e in prof.events()].count("aten::erf") == 1
    out, err = capfd.readouterr()
    assert "profiler_st" not in out + err, err
    with torch.profiler.profile():
        torch.erf(torch.ones(3))
    if torch.__version__.startswith("2.13"):
        assert "profiler_start" in capfd.readouterr().err  # torch's own windows are torch's own


@native
def test_process_that_is_recorded_already(tmp_path):
    """As under `tachograph run`: the script's own profiler works beside it, by torch's collector, and the labels reach
    both."""
    from tachograph._collect.native import NativeRecording

    with NativeRecording(tmp_path / "main.tacho"):
        with pytest.warns(
            UserWarning, match="^recording with torch's own collector: this process is being recorded already"
        ):
            assert kind() == "kineto"
        with pytest.raises(RuntimeError, match="this process is being recorded already"):
            tg.profile(backend="native").start()
    with tg.open(tmp_path) as trace:
        assert {"aten::erf", "label"} <= {row["name"] for row in trace.ask("events")}
    assert kind() == "native"


@native
@native
def test_cupti_goes_to_torchs_profiler(monkeypatch):
    """Torch's collector finds nothing while CUPTI has our buffers: it is free before theirs prepares, for CUDA."""
    order = []
    monkeypatch.setattr(torch.autograd.profiler, "_prepare_profiler", lambda *given: order.append("torch"))
    before = torch.autograd.profiler._prepare_profiler
    side = TorchSide(lambda: None, lambda: order.append("released"))
    side.enter()
    try:
        torch.autograd.profiler._prepare_profiler(None, {torch.profiler.ProfilerActivity.CPU})
        torch.autograd.profiler._prepare_profiler(None, {torch.profiler.ProfilerActivity.CUDA})
    finally:
        side.leave()
    assert order == ["torch", "released", "torch"] and torch.autograd.profiler._prepare_profiler is before


@native
def test_cuda_is_refused_inside_torchs_window(tmp_path):
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="torch.profiler is recording on this thread"):
        NativeRecording(tmp_path / "cuda.tacho", _record.CUDA)


def test_feature_that_cannot_be_had(monkeypatch):
    """Operators are recorded without it, and a warning says what is missing."""
    from tachograph import _record

    state = _record.state
    monkeypatch.setattr(
        _record, "state", lambda: {**state(), "missing": _record.MEMORY, "why": "memory: no slot was found"}
    )
    with pytest.warns(UserWarning, match="^not everything asked for can be recorded here: memory: no slot was found$"):
        assert kind(profile_memory=True) == "native"


@native
def test_warning_that_is_an_error(monkeypatch):
    """Nothing goes on without the block that would end it."""
    state = _record.state
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(_record, "state", lambda: {**state(), "missing": _record.MEMORY, "why": "memory: no slot"})
        with pytest.raises(UserWarning, match="memory: no slot"):
            kind(profile_memory=True)
    assert not _record.state()["open"] and backend.current() is None
    assert kind() == "native"


# ---- tachograph doctor -------------------------------------------------------------------------------------


def test_doctor_tells_what_can_be_recorded():
    run = subprocess.run(
        [sys.executable, "-m", "tachograph", "doctor", "--json"], capture_output=True, text=True, check=True
    )
    rows = {item: (value, fine) for item, value, fine, _ in json.loads(run.stdout)["rows"]}
    assert rows["torch"] == (torch.__version__, True)
    usable = "native" in BACKENDS
    refused = _record.frames()
    found = "yes" if usable and not refused else f"in part: {refused}" if usable else "no: "
    assert rows["our recorder"][1] == (found == "yes") and rows["our recorder"][0].startswith(found)
    assert rows["torch's collector"] == (
        "yes, for " + ", ".join(sorted(a.name for a in torch.profiler.supported_activities())),
        True,
    )
    assert rows["NVIDIA, AMD devices"][0].startswith("yes, " if torch.cuda.is_available() else "no: ")


def test_doctor_gives_the_reason_of_the_self_test(monkeypatch):
    monkeypatch.setattr("tachograph._collect.native.available", lambda: (False, "the offset of the name is off by 8"))
    assert _doctor.rows()[1][:3] == ("our recorder", "no: the offset of the name is off by 8", False)


def test_doctor_without_torch(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what diff has kept for the user is no matter here
    rows = _doctor.rows()
    assert [row[0] for row in rows] == ["torch", "our recorder", "NVTX"] and rows[0][1].startswith("not found")


def devices(cuda=None, hip=None, cuda_here=False, activities=(), mps=(False, False), xpu=(False, False)):
    """A torch as far as its devices are asked for."""
    named = types.SimpleNamespace
    kinds = named(CUDA=named(name="CUDA"))
    usable = [kinds.CUDA if name == "CUDA" else named(name=name) for name in activities]
    return named(
        __version__="2.13.0",
        version=named(cuda=cuda, hip=hip),
        profiler=named(ProfilerActivity=kinds, supported_activities=lambda: usable),
        cuda=named(is_available=lambda: cuda_here, device_count=lambda: 2, get_device_name=lambda i: "H"),
        xpu=named(
            _is_compiled=lambda: xpu[0],
            is_available=lambda: xpu[1],
            device_count=lambda: 1,
            get_device_name=lambda i: "X",
        ),
        backends=named(mps=named(is_built=lambda: mps[0], is_available=lambda: mps[1])),
    )


@pytest.mark.parametrize(
    "given, row, value, fine",
    [
        ({}, 0, "no: this torch is built without CUDA and ROCm", True),
        ({"cuda": "13.2"}, 0, "no: built for CUDA 13.2, and no device of that kind can be used here", True),
        ({"cuda": "13.2", "cuda_here": True, "activities": ["CUDA"]}, 0, "yes, CUDA 13.2: 2 × H", True),
        ({"hip": "7.0", "cuda_here": True}, 0, "no: the collector of this torch has no activity for them", False),
        ({}, 1, "no: this torch is built without XPU", True),
        ({"xpu": (True, True), "activities": ["XPU"]}, 1, "yes, 1 × X", True),
        ({"mps": (True, False)}, 2, "no: built for MPS, and no device of that kind can be used here", True),
        ({"mps": (True, True)}, 2, "no: torch's collector has no activity for them", False),
    ],
)
def test_doctor_on_devices(given, row, value, fine, monkeypatch):
    monkeypatch.setattr(_doctor, "NVIDIA_DRIVER", "/nowhere")
    monkeypatch.setattr(_doctor, "AMD_DRIVER", "/nowhere")
    _, said, is_fine, advice = _doctor._devices(devices(**given))[row]
    assert (said, is_fine) == (value, fine) and bool(advice) != is_fine


@pytest.mark.parametrize("name, kind, package", [("NVIDIA_DRIVER", "NVIDIA", "CUDA"), ("AMD_DRIVER", "AMD", "ROCm")])
def test_doctor_on_a_driver_without_its_torch(name, kind, package, monkeypatch, tmp_path):
    for driver in ("NVIDIA_DRIVER", "AMD_DRIVER"):
        monkeypatch.setattr(_doctor, driver, "/nowhere")
    (tmp_path / "driver").touch()
    monkeypatch.setattr(_doctor, name, str(tmp_path / "driver"))
    _, said, is_fine, advice = _doctor._devices(devices())[0]
    assert said.startswith(f"no: the driver of {kind} is here ({tmp_path}/driver), and torch") and not is_fine
    assert advice.startswith(f"install a torch for {package};")


@pytest.mark.parametrize(
    "variable, given, row",
    [
        ("ROCP_TOOL_LIBRARIES", {"hip": "7.0", "cuda_here": True, "activities": ["CUDA"]}, 0),
        ("XPTI_SUBSCRIBERS", {"xpu": (True, True), "activities": ["XPU"]}, 1),
    ],
)
def test_doctor_names_the_profiler_that_comes_first(variable, given, row, monkeypatch):
    monkeypatch.setenv(variable, "libother.so")
    _, said, is_fine, advice = _doctor._devices(devices(**given))[row]
    assert f"another profiler comes first ({variable}=libother.so)" in said and not is_fine
    assert advice == f"unset {variable} to record"


def doctor_of_cuda(monkeypatch, after_resume):
    """What doctor says where memory of devices is found out when the recording starts, as our recorder does."""
    found, why_not = {"library": "libcupti.so.13", "version": 130500}, ["no recording had allocations"]
    record = types.SimpleNamespace(
        open=lambda *a, **k: None,
        resume=lambda: why_not.append(after_resume),
        close=lambda: None,
        cuda=lambda: found,
        device_memory=lambda: why_not[-1],
        CUDA=1,
        MEMORY=2,
    )
    record.RecordError = _record.RecordError
    monkeypatch.setattr(_doctor, "_record", record)
    return _doctor._cuda(devices(cuda="13.2", cuda_here=True))


def test_doctor_says_that_memory_of_devices_is_missing(monkeypatch):
    said, is_fine, advice = doctor_of_cuda(monkeypatch, "no slot")
    assert said == "in part: libcupti.so.13 (CUPTI 130500) passed its proof; without allocations: no slot"
    assert not is_fine and "backend='kineto'" in advice


def test_doctor_starts_a_recording_to_see_the_memory_of_devices(monkeypatch):
    said, is_fine, _ = doctor_of_cuda(monkeypatch, None)
    assert said == "yes, libcupti.so.13 (CUPTI 130500) passed its proof" and is_fine
