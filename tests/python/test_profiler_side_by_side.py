"""The same program under torch.profiler and under tachograph. Allowed differences, all of them where this torch is not
2.15 or where torch breaks off: named at the test that meets them."""

import glob
import inspect
import os
import re
import threading

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU, load

# What torch 2.4 did not have yet: its files have these members less, and its refusals are without words.
OLD = "custom_trace_id_callback" not in inspect.signature(torch.profiler.profile).parameters
MEMBERS_SINCE = {"trace_id", "host_name"} if OLD else set()
pytestmark = pytest.mark.filterwarnings("ignore")


def program(package, folder, backend, **options):
    """Six steps of training, of which two are recorded, with the names that `package` has."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if package is tg:
        options["backend"] = backend
    prof = package.profile(
        activities=[CPU],
        schedule=package.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1),
        on_trace_ready=package.tensorboard_trace_handler(str(folder)),
        **options,
    )
    with prof:
        for _ in range(6):
            with package.record_function("forward"):
                loss = model(torch.randn(2, 8)).square().mean()
            with package.record_function("backward", "the args"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    return prof


@pytest.fixture(scope="module", params=BACKENDS)
def both(request, tmp_path_factory):
    folders = [tmp_path_factory.mktemp(name) for name in ("theirs", "ours")]
    profilers = [
        program(package, folder, request.param, record_shapes=True)
        for package, folder in zip((torch.profiler, tg), folders)
    ]
    return profilers, folders


def rows(averages):
    return {(row.key, str(row.input_shapes)): row.count for row in averages}


def test_averages(both):
    theirs, ours = both[0]
    assert rows(ours.key_averages()) == rows(theirs.key_averages())
    assert rows(ours.key_averages(group_by_input_shape=True)) == rows(theirs.key_averages(group_by_input_shape=True))


def test_events(both):
    theirs, ours = (sorted((e.name, str(e.input_shapes), e.count) for e in prof.events()) for prof in both[0])
    assert ours == theirs


def test_table_headers(both):
    theirs, ours = (prof.key_averages().table(sort_by="count", row_limit=3).splitlines() for prof in both[0])
    assert [line.split() for line in ours[:3]][1] == [line.split() for line in theirs[:3]][1]
    assert len(ours) == len(theirs)


def test_files(both):
    """One file each, of the same name but for the clock, with the same members and as many events of each category."""
    (theirs,), (ours,) = (glob.glob(str(folder / "*")) for folder in both[1])
    assert re.sub(r"\d{15,}", "N", os.path.basename(ours)) == re.sub(r"\d{15,}", "N", os.path.basename(theirs))
    theirs, ours = load(theirs), load(ours)
    # More than torch's: versions and threads, for a later diff, and what torch.compile compiled in this process so far.
    more = {"conditions", f"compiles.{os.getpid()}"}
    assert set(ours) - MEMBERS_SINCE - more == set(theirs) - MEMBERS_SINCE
    assert ours["schemaVersion"] == theirs["schemaVersion"] and ours["displayTimeUnit"] == theirs["displayTimeUnit"]

    def count(document, key):
        found = {}
        for event in document["traceEvents"]:
            if event["ph"] in "Xi":
                found[event.get(key)] = found.get(event.get(key), 0) + 1
        return found

    assert count(ours, "cat") == count(theirs, "cat")
    assert {name: n for name, n in count(ours, "name").items() if name} == count(theirs, "name")

    def processes(document):
        return {
            e["args"]["name"]
            for e in document["traceEvents"]
            if e["name"] == "process_name" and e["pid"] == os.getpid()
        }

    assert processes(ours) == processes(theirs)


def test_document_is_called_by_its_path(both, tmp_path):
    both[0][1].export_chrome_trace(str(tmp_path / "named.json"))
    (handled,) = glob.glob(str(both[1][1] / "*"))
    assert load(handled)["traceName"] == handled  # by the name it was given first
    assert load(tmp_path / "named.json")["traceName"] == handled


@pytest.mark.skipif(
    "capture_overload_names:" not in torch._C._profiler._ExperimentalConfig.__init__.__doc__,
    reason="this torch knows no overloads",
)
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_overloads_in_names(backend, captured, tmp_path):
    found = []
    for package, more in ((torch.profiler, {}), (tg, {"backend": backend})):
        config = torch._C._profiler._ExperimentalConfig(capture_overload_names=captured)
        with package.profile(activities=[CPU], experimental_config=config, **more) as prof:
            (torch.ones(3, requires_grad=True) + 1).sum().backward()
        prof.export_chrome_trace(str(tmp_path / "trace.json"))
        found.append(
            sorted(e["name"] for e in load(tmp_path / "trace.json")["traceEvents"] if e.get("cat") == "cpu_op")
        )
    assert found[0] == found[1] and ("aten::add.Tensor" in found[1]) == captured


def test_attributes(both):
    theirs, ours = both[0]
    for name in (
        "record_shapes",
        "with_stack",
        "with_flops",
        "with_modules",
        "profile_memory",
        "acc_events",
        "activities",
        "step_num",
        "record_steps",
        "preset_metadata",
        "has_cudagraphs",
        "mem_tl",
        "use_device",
    ):
        assert hasattr(ours, name)
        if not OLD or hasattr(theirs, name):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.current_action == theirs.current_action


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [["events"], ["key_averages"], ["export_stacks", "x"], ["export_chrome_trace", "x"]])
def test_before_anything_was_recorded(backend, calls):
    """The same type of error, and the same words as far as torch has words."""
    name, *arguments = calls
    said = []
    for prof in (torch.profiler.profile(activities=[CPU]), tg.profile(activities=[CPU], backend=backend)):
        with pytest.raises(AssertionError) as caught:
            getattr(prof, name)(*arguments)
        said.append(str(caught.value))
    assert said[0] == ("" if OLD else said[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_window_that_ended_in_warmup(backend):
    """Nothing was recorded: an empty list in both; torch says nothing about it."""
    lengths = []
    for package, more in ((torch.profiler, {}), (tg, {"backend": backend})):
        with package.profile(
            activities=[CPU], schedule=package.schedule(wait=1, warmup=2, active=3, repeat=1), **more
        ) as prof:
            for _ in range(2):
                torch.ones(2)
                prof.step()
        lengths.append((len(prof.events()), len(prof.key_averages())))
    assert lengths == [(0, 0), (0, 0)]


@pytest.mark.skipif(OLD, reason="this torch accumulates no events")
@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulated_events(backend):
    counts = []
    for package, more in ((torch.profiler, {}), (tg, {"backend": backend})):
        with package.profile(
            activities=[CPU], schedule=package.schedule(wait=0, warmup=1, active=1, repeat=3), acc_events=True, **more
        ) as prof:
            for _ in range(6):
                torch.ones(2).erf()
                prof.step()
        counts.append({row.key: row.count for row in prof.key_averages()})
    assert counts[0] == counts[1] and counts[1]["aten::erf"] == 3


@pytest.mark.skipif(
    "profile_all_threads:" not in torch._C._profiler._ExperimentalConfig.__init__.__doc__,
    reason="this torch sees one thread",
)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("all_threads", [False, True])
def test_threads_of_a_table(backend, all_threads):
    """Another thread's operators are in the table with profile_all_threads only; the trace of our recorder has them in
    any case."""
    found = []
    for package, more in ((torch.profiler, {}), (tg, {"backend": backend})):
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=all_threads)
        with package.profile(activities=[CPU], experimental_config=config, **more) as prof:
            torch.ones(2).erf()
            thread = threading.Thread(target=lambda: torch.ones(2).tanh())
            thread.start()
            thread.join()
        found.append({name: n for name, n in rows_by_name(prof).items() if name in ("aten::erf", "aten::tanh")})
        assert {e.name for e in prof.events()} & {"aten::erf", "aten::tanh"} == set(found[-1])
    assert found[0] == found[1] == {"aten::erf": 1, **({"aten::tanh": 1} if all_threads else {})}
    if backend == "native":
        assert "aten::tanh" in {row["name"] for row in prof.trace.ask("events")}


def rows_by_name(prof):
    return {row.key: row.count for row in prof.key_averages()}
