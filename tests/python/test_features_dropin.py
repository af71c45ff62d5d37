"""What scripts written for torch.profiler lean on beside its signatures: errors, attributes, texts."""

import json
import time

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU
from tachograph._events.totals import phases


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


def test_paths_may_be_objects(prof, tmp_path):
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    assert (
        json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        and (tmp_path / "trace.json.gz").stat().st_size > 0
    )


def test_a_folder_that_is_not_there_is_named_by_the_path_given(prof, tmp_path):
    path = str(tmp_path / "no" / "trace.json")
    with pytest.raises(FileNotFoundError) as caught:
        prof.export_chrome_trace(path)
    assert caught.value.filename == path
    with pytest.raises(FileNotFoundError) as caught:
        prof.trace.export(path)
    assert caught.value.filename == path


def test_wrong_sort_key_is_a_sentence(prof):
    with pytest.raises(
        AttributeError,
        match=r"has no attribute 'calls' to sort by; did you mean sort_by='count'\? There are cpu_time, ",
    ):
        prof.key_averages().table(sort_by="calls")
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz' to sort by\. There are cpu_time, "):
        prof.key_averages().table(sort_by="zzz")


def test_events_have_no_column_of_overloads_unless_asked_for(prof):
    """torch knows overloads only with capture_overload_names; an event of ours always does, and the table stays
    torch's."""
    head = prof.events().table().splitlines()[1].split()
    assert head[:2] == ["Name", "Self"]
    if "capture_overload_names:" not in (torch._C._profiler._ExperimentalConfig.__init__.__doc__ or ""):
        return  # this torch does not tell them
    with tg.profile(
        activities=[CPU], experimental_config=tg._ExperimentalConfig(capture_overload_names=True)
    ) as captured:
        torch.ones(2).add(1)
    assert "Overload Name" in captured.events().table()


def test_views_list_their_attributes(prof):
    """For exploring with dir() or the tab key."""
    with torch.profiler.profile(activities=[CPU]) as other:
        torch.ones(2).add(1)

    def public(thing):
        return {name for name in dir(thing) if not name.startswith("_")}

    assert public(other.events()[0]) <= public(prof.events()[0])
    assert public(other.key_averages()[0]) <= public(prof.key_averages()[0])
    assert public(other.profiler.kineto_results.events()[0]) <= public(prof.profiler.kineto_results.events()[0])
    assert json.loads(prof.profiler.kineto_results.events()[0].metadata_json()) == {}


def test_the_inner_profiler_has_what_torchs_has(prof):
    own_workings = {
        "config",
        "create_trace_id",
        "default_trace_id",
        "kineto_activities",
        "profiler_kind",
        "profiling_end_time_ns",
        "profiling_start_time_ns",
        "use_mtia",
    }  # use_mtia: of 2.4
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
    assert native.calls == [
        ("rangePushA", "before the window"),
        ("rangePop",),
        ("rangePushA", "outer"),
        ("rangePushA", "step 3"),
        ("rangePop",),
        ("rangePop",),
        ("markA", "a moment"),
    ]
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


def slow(seconds):
    time.sleep(seconds)


class Slow(torch.autograd.Function):
    """Forward and backward of known length."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        slow(0.03)
        return gradient


@pytest.mark.timing
@pytest.mark.parametrize("backend", BACKENDS)
def test_phases_without_labels(backend):
    """Loader 20 ms, backward 30 ms, optimizer 10 ms, and 5 ms of Python in between, each a step."""

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            slow(0.02)
            return torch.ones(4)

    class Optimizer(torch.optim.SGD):
        def step(self, closure=None):
            slow(0.01)
            return super().step(closure)

    model = torch.nn.Linear(4, 4)
    optimizer = Optimizer(model.parameters(), 0.1)
    with tg.profile(
        activities=[CPU], backend=backend, schedule=tg.schedule(wait=1, warmup=1, active=4, repeat=1)
    ) as prof:
        for x in torch.utils.data.DataLoader(Data()):
            optimizer.zero_grad()
            Slow.apply(model(x)).sum().backward()
            optimizer.step()
            slow(0.005)
            prof.step()
    found = prof.phases()
    assert found.steps == 4 and sum(found.percent.values()) == pytest.approx(100)
    for name, least in (("data", 20), ("backward", 30), ("optimizer", 10), ("other", 5)):
        assert least <= getattr(found, name), (name, found)
    assert 0 < found.forward < found.backward
    assert [line.split()[0] for line in str(found).splitlines()] == [
        "data",
        "forward",
        "loss",
        "backward",
        "optimizer",
        "other",
    ]


def test_phases_by_hand(tmp_path):
    """Two steps of 100 us. The first: loader 10-30, forward 30-50 (an operator in another), backward 50-70 on another
    thread, optimizer 70-90. The second: an operator of a thread that serves no loop: no phase has it."""

    def event(name, ts, dur, category="cpu_op", tid=1):
        return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": {}}

    label = "user_annotation"
    events = [
        event("ProfilerStep#0", 0, 100, label),
        event("ProfilerStep#1", 110, 100, label),
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 20, label),
        event("aten::stack", 12, 5),
        event("aten::linear", 30, 20),
        event("aten::addmm", 35, 10),
        event("aten::sin", 100, 30, tid=3),
        event("autograd::engine::evaluate_function: AddmmBackward0", 50, 20, tid=2),
        event("aten::mm", 55, 5, tid=2),
        event("Optimizer.step#SGD.step", 70, 20, label),
        event("aten::add_", 75, 5),
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(tmp_path / "trace.json") as trace:
        found = phases(trace)
    # A step: half of 20 us of loader, forward, backward and optimizer each, and of the rest, 200 - 80.
    assert found == (0.01, 0.01, 0, 0.01, 0.01, 0.06, 2)
    (tmp_path / "empty.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, "ts": 0, "dur": 1}]}'
    )
    with tg.open(tmp_path / "empty.json") as trace, pytest.raises(tg.TachographError, match=r"ProfilerActivity\.CPU"):
        phases(trace)
