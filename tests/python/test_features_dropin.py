"""What scripts written for torch.profiler lean on beside its signatures: errors, attributes, texts."""
import json

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU


class Nvtx:
    """The NVTX of a torch that has one: notes what it is told."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


@pytest.fixture(scope="module", params=BACKENDS)
def prof(request):
    layer, x = torch.nn.Linear(8, 4), torch.ones(2, 8)
    with tg.profile(activities=[CPU], backend=request.param) as prof:
        with tg.record_function("a label"):
            layer(x).sum().backward()
    return prof


def test_stacks_that_were_not_recorded_are_an_error(prof, tmp_path):
    with pytest.raises(AssertionError, match=r"^export_stacks\(\) requires with_stack=True$"):
        prof.export_stacks(str(tmp_path / "stacks.txt"))


def test_wrong_sort_key_is_a_sentence(prof):
    with pytest.raises(AttributeError, match=r"has no attribute 'calls' to sort by; did you mean sort_by='count'\? There are cpu_time, "):
        prof.key_averages().table(sort_by="calls")
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz' to sort by\. There are cpu_time, "):
        prof.key_averages().table(sort_by="zzz")


def test_events_have_no_column_of_overloads_unless_asked_for(prof):
    """torch knows overloads with capture_overload_names alone; an event of ours always does, and the table stays torch's."""
    head = prof.events().table().splitlines()[1].split()
    assert head[:2] == ["Name", "Self"]
    with tg.profile(activities=[CPU], experimental_config=tg._ExperimentalConfig(capture_overload_names=True)) as captured:
        torch.ones(2).add(1)
    assert "Overload Name" in captured.events().table()


def test_views_list_their_attributes(prof):
    """For those who explore with dir() or the tab key."""
    with torch.profiler.profile(activities=[CPU]) as other:
        torch.ones(2).add(1)

    def public(thing):
        return {name for name in dir(thing) if not name.startswith("_")}
    assert public(other.events()[0]) <= public(prof.events()[0])
    assert public(other.key_averages()[0]) <= public(prof.key_averages()[0])
    assert public(other.profiler.kineto_results.events()[0]) <= public(prof.profiler.kineto_results.events()[0])
    assert json.loads(prof.profiler.kineto_results.events()[0].metadata_json()) == {}


def test_the_inner_profiler_has_what_torchs_has(prof):
    own_workings = {"config", "create_trace_id", "default_trace_id", "kineto_activities", "profiler_kind", "profiling_end_time_ns",
                    "profiling_start_time_ns"}
    names = {name for name in dir(torch.autograd.profiler.profile()) if not name.startswith("_")}
    assert {name for name in names if not hasattr(prof.profiler, name)} <= own_workings
    assert prof.profiler.trace_id == prof.get_trace_id() and not prof.profiler.use_cuda


@pytest.mark.parametrize("backend", BACKENDS)
def test_nvtx_ranges_are_labels(backend, monkeypatch):
    nvtx, native = torch.cuda.nvtx, Nvtx()
    monkeypatch.setattr(nvtx, "_nvtx", native)
    nvtx.range_push("before the window")
    with tg.profile(activities=[CPU], backend=backend) as prof:
        nvtx.range_pop()
        nvtx.range_push("outer")
        with nvtx.range("step {}", 3):
            torch.ones(2).add(1)
        torch.ones(2).mul(2)
        nvtx.range_pop()
        nvtx.mark("a moment")
    assert native.calls == [("rangePushA", "before the window"), ("rangePop",), ("rangePushA", "outer"), ("rangePushA", "step 3"), ("rangePop",),
                            ("rangePop",), ("markA", "a moment")]
    assert nvtx._nvtx is native
    events = {event.name: event for event in prof.events()}
    assert events["step 3"].cpu_parent is events["outer"] and events["outer"].is_user_annotation
    assert [child.name for child in events["step 3"].cpu_children] == ["aten::ones", "aten::add"]
    assert "a moment" in events and "before the window" not in events


@pytest.mark.skipif(hasattr(torch._C, "_nvtx"), reason="says what happens without NVTX")
def test_nvtx_that_is_not_there_raises_as_before():
    with tg.profile(activities=[CPU]):
        with pytest.raises(RuntimeError, match="NVTX functions not installed"):
            torch.cuda.nvtx.range_push("a")
