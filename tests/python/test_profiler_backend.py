"""Which collector records, and what is said when it is not ours."""
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
import tachograph._say
from recording import BACKENDS, CPU, names

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
        assert kind(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) == "native"


def test_backend_of_the_environment(monkeypatch):
    monkeypatch.setenv("TACHOGRAPH_BACKEND", "kineto")
    assert kind() == "kineto"
    if "native" in BACKENDS:
        assert kind(backend="native") == "native"  # what the script says goes first


@native
@pytest.mark.filterwarnings("ignore:torch .* cannot select activity types")
def test_what_only_torch_has():
    assert kind(activities=[{CPU: ["CPU_OP", "USER_ANNOTATION"]}]) == "kineto"


@pytest.mark.parametrize("more, why", [
    (dict(), None), (dict(with_stack=True, profile_memory=True), None),
    (dict(activities=[{CPU: ["CPU_OP"]}]), "single activity types"),
    (dict(experimental_config=tg._ExperimentalConfig(performance_events=["cycles"])), "performance events"),
])
def test_why_it_is_torch(more, why):
    reason = tg.profile(**{"activities": [CPU], **more})._recipe().only_kineto()
    assert reason is None if why is None else reason.startswith(why)


@native
def test_failed_self_test(monkeypatch):
    """One sentence with the evidence, once; then torch's collector does it."""
    import tachograph._native
    monkeypatch.setattr(tachograph._native, "available", lambda: (False, "operators: this torch is not understood: 17 is not 4"))
    with pytest.warns(UserWarning, match="^recording with torch's own collector: operators: this torch is not understood: 17 is not 4$") as caught:
        assert [kind(), kind()] == ["kineto", "kineto"]
    assert len([w for w in caught if "own collector" in str(w.message)]) == 1 and caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="backend='native' cannot be had here: operators: this torch is not understood"):
        tg.profile(backend="native").start()
    assert kind() == "kineto"


@native
def test_process_that_is_recorded_already(tmp_path):
    """As under `tachograph run`: the script's own profiler works beside it, by torch's collector, and the labels reach both."""
    from tachograph._native import NativeRecording
    with NativeRecording(tmp_path / "main.tacho"):
        with pytest.warns(UserWarning, match="^recording with torch's own collector: this process is being recorded already"):
            assert kind() == "kineto"
        with pytest.raises(RuntimeError, match="this process is being recorded already"):
            tg.profile(backend="native").start()
    with tg.open(tmp_path) as trace:
        assert {"aten::erf", "label"} <= {row["name"] for row in trace.ask("events")}
    assert kind() == "native"


@native
def test_feature_that_cannot_be_had(monkeypatch):
    """Operators are recorded without it, and a warning says what is missing."""
    from tachograph import _record
    state = _record.state
    monkeypatch.setattr(_record, "state", lambda: {**state(), "missing": _record.MEMORY, "why": "memory: no slot was found"})
    with pytest.warns(UserWarning, match="^not everything asked for can be recorded here: memory: no slot was found$"):
        assert kind(profile_memory=True) == "native"
