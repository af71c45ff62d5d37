"""tachograph.autograd.profiler: the older face of the profiler, used as torch.autograd.profiler is."""

import inspect
import json

import pytest

torch = pytest.importorskip("torch")

import tachograph as tg
from tachograph.autograd import profiler


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def prof():
    x = torch.randn(8, 8, requires_grad=True)
    with profiler.profile(record_shapes=True, profile_memory=True) as made:
        with profiler.record_function("block"):
            (x @ x).sum().backward()
    return made


def test_every_public_name_is_there():
    assert set(torch.autograd.profiler.__all__) <= set(profiler.__all__)
    assert all(hasattr(profiler, name) for name in profiler.__all__)
    assert profiler._is_profiler_enabled is torch.autograd.profiler._is_profiler_enabled


def test_every_keyword_is_taken():
    ours, theirs = (
        inspect.signature(cls.__init__).parameters for cls in (profiler.profile, torch.autograd.profiler.profile)
    )
    assert set(theirs) <= set(ours)
    assert all(ours[name].kind == theirs[name].kind and ours[name].default == theirs[name].default for name in theirs)


@pytest.mark.parametrize(
    "name",
    ["table", "key_averages", "total_average", "export_chrome_trace", "export_stacks", "toggle_collection_dynamic"],
)
def test_every_method_takes_what_torchs_takes(name):
    if not hasattr(torch.autograd.profiler.profile, name):
        pytest.skip(f"torch {torch.__version__} has no {name}")
    ours, theirs = (
        inspect.signature(getattr(cls, name)).parameters for cls in (profiler.profile, torch.autograd.profiler.profile)
    )
    assert list(theirs) == list(ours)[: len(theirs)]


def test_results(prof):
    rows = {e.key: e for e in prof.key_averages(group_by_input_shape=True)}
    assert rows["aten::matmul"].count == 1 and rows["aten::matmul"].input_shapes == [[8, 8], [8, 8]]
    assert rows["aten::mm"].cpu_parent is not None and rows["block"].scope == 7
    assert {e.name for e in prof.function_events} >= {"block", "aten::matmul", "aten::mm", "aten::sum"}
    assert prof.self_cpu_time_total == pytest.approx(prof.total_average().self_cpu_time_total)
    assert "aten::mm" in prof.table(row_limit=-1) and "aten::mm" in str(prof) and "FunctionEvent" in repr(prof)
    assert prof.record_shapes and prof.profile_memory and not prof.with_stack and prof.use_device is None


def test_results_of_the_collector(prof, tmp_path):
    events = prof.kineto_results.events()
    assert [e.name() for e in events] == [e.trace_name for e in prof.function_events]
    block = next(e for e in events if e.name() == "block")
    assert (
        block.end_ns() - block.start_ns() == block.duration_ns() > 0
        and block.is_user_annotation()
        and block.scope() == 7
    )
    prof.kineto_results.save(str(tmp_path / "a.json"))
    prof.export_chrome_trace(str(tmp_path / "b.json"))  # a second time, which torch refuses
    names = {
        e["name"] for e in json.loads((tmp_path / "b.json").read_text())["traceEvents"] if e.get("cat") == "cpu_op"
    }
    assert "aten::mm" in names


def test_stacks_need_stacks(prof, tmp_path):
    with pytest.raises(AssertionError, match="with_stack=True"):
        prof.export_stacks(str(tmp_path / "stacks.txt"))


def test_stacks_alone_are_enough(tmp_path):
    with profiler.profile(with_stack=True) as made:
        for _ in range(50):
            torch.ones(64, 64) @ torch.ones(64, 64)
    made.export_stacks(str(tmp_path / "stacks.txt"))
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert lines and len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)
    assert any("test_autograd_profiler.py" in line for line in lines) and all(
        int(line.rsplit(" ", 1)[1]) > 0 for line in lines
    )


def test_disabled_does_nothing():
    with profiler.profile(enabled=False) as made:
        torch.ones(1)
    assert made is None


def test_mistakes():
    with pytest.raises(AssertionError, match="use_kineto=True"):
        profiler.profile(use_cpu=False)
    with pytest.raises(ValueError, match="non-negative"):
        profiler.profile(post_processing_timeout_s=-1)
    with pytest.warns(UserWarning, match="not a valid device"):
        profiler.profile(use_device="toaster")
    made = profiler.profile()
    assert "unfinished" in str(made) and made.kineto_results is None
    with pytest.raises(AssertionError, match="Expected profiling results"):
        made.function_events
    with made, pytest.raises(RuntimeError, match="not reentrant"):
        made.__enter__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there():
    with pytest.warns(FutureWarning, match="use_cuda"), pytest.warns(UserWarning, match="not available"):
        made = profiler.profile(use_cuda=True)
    assert made.use_device is None


def test_the_profiler_of_a_profile():
    with tg.profile() as outer:
        assert "unfinished" in repr(outer.profiler)  # as in torch, which makes it when it prepares
        torch.ones(3).add(1)
    inner = outer.profiler
    assert inner.key_averages().table() == outer.key_averages().table() and inner.kineto_results.events()


def test_exceptions_pass_and_events_stay():
    made = profiler.profile()
    with pytest.raises(ZeroDivisionError), made:
        torch.ones(3).add(1)
        1 / 0
    assert any(e.name == "aten::add" for e in made.function_events)
