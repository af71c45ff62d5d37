"""Windows of the drop-in profiler, on every backend: which steps are recorded, what is written, what the user is
told."""

import gc
import logging
import os
import pathlib
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU, CUDA, XPU, events_of, load, loop, names, needs_no_cuda, quiet_schedule, steps

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")


@pytest.fixture(params=BACKENDS)
def profile(request):
    """profile(…) on one backend."""
    return lambda **arguments: tg.profile(backend=request.param, **arguments)


class Files:
    """A trace handler that writes numbered files."""

    def __init__(self, folder):
        self.folder, self.paths = folder, []

    def __call__(self, prof):
        self.paths.append(str(self.folder / f"window{len(self.paths)}.json"))
        prof.export_chrome_trace(self.paths[-1])


# ---- which steps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan, count, expected",
    [
        (dict(wait=1, warmup=1, active=3, repeat=1), 6, [[2, 3, 4]]),
        (dict(wait=1, warmup=2, active=3, repeat=1), 11, [[3, 4, 5]]),
        (dict(wait=1, warmup=4, active=5, repeat=1), 11, [[5, 6, 7, 8, 9]]),
        (dict(wait=1, warmup=1, active=3), 12, [[2, 3, 4], [7, 8, 9], [12]]),
        (dict(wait=1, warmup=4, active=5, repeat=1), 8, [[5, 6, 7, 8]]),
        (dict(wait=2, warmup=1, active=1, repeat=2, skip_first=1, skip_first_wait=1), 9, [[2], [6]]),
        (dict(wait=0, warmup=0, active=2, repeat=2), 6, [[0, 1], [2, 3]]),
    ],
)
@pytest.mark.filterwarnings("ignore:the loop ended before", "ignore:the schedule has no end")
def test_recorded_steps(profile, tmp_path, plan, count, expected):
    files = Files(tmp_path)
    with profile(activities=[CPU], schedule=quiet_schedule(**plan), on_trace_ready=files) as prof:
        loop(prof, count)
    assert [steps(path) for path in files.paths] == expected


def test_warmup_is_outside(profile, tmp_path):
    files = Files(tmp_path)
    operators = [torch.sin, torch.cos, torch.tan, torch.exp]
    with profile(schedule=tg.schedule(wait=1, warmup=1, active=1, repeat=1), on_trace_ready=files) as prof:
        for operator in operators:
            operator(torch.ones(3))
            prof.step()
    found = set(names(files.paths[0], "cpu_op"))
    assert "aten::tan" in found and not found & {"aten::sin", "aten::cos", "aten::exp"}


def test_start_and_stop_are_with(profile):
    model, x = torch.nn.Linear(8, 4), torch.ones(2, 8)

    def body():
        with tg.record_function("forward"):
            loss = model(x).sum()
        with tg.record_function("backward"):
            loss.backward()

    found = []
    for imperative in (False, True):
        prof = profile(activities=[CPU], schedule=tg.schedule(wait=1, warmup=1, active=3, repeat=1))
        if imperative:
            prof.start()
            loop(prof, 6, body)
            prof.stop()
        else:
            with prof:
                loop(prof, 6, body)
        ops = prof.trace.ask("ops")
        found.append({row["name"]: row["calls"] for row in ops})
        labels = names(prof, "user_annotation")
        assert labels.count("forward") == labels.count("backward") == 3
    assert found[0] == found[1]
    assert found[0]["aten::addmm"] == 3


def test_counts_of_a_linear_layer(profile):
    """Five times forward and backward of Linear(…) on 64 rows."""
    layer, x = torch.nn.Linear(32, 32), torch.randn(64, 32)
    with profile(activities=[CPU]) as prof:
        for _ in range(5):
            layer(x).sum().backward()
    calls = {row["name"]: row["calls"] for row in prof.trace.ask("ops")}
    assert {
        name: calls[name] for name in ("aten::addmm", "aten::mm", "aten::sum", "aten::linear", "AddmmBackward0")
    } == {"aten::addmm": 5, "aten::mm": 5, "aten::sum": 10, "aten::linear": 5, "AddmmBackward0": 5}


def test_optimizer_and_loader_are_marked(profile):
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4)), batch_size=2)
    with profile(activities=[CPU]) as prof:
        for (x,) in loader:
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()
    found = names(prof)
    assert found.count("Optimizer.step#Adam.step") == found.count("Optimizer.zero_grad#Adam.zero_grad") == 8
    assert found.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 9


# ---- how a window ends -------------------------------------------------------------------------------------


def test_exception_propagates_and_the_trace_is_written(profile, tmp_path):
    files = Files(tmp_path)
    with pytest.raises(ZeroDivisionError):
        with profile(activities=[CPU], on_trace_ready=files) as prof:
            torch.ones(3).add(1)
            1 / 0
    assert "aten::add" in names(files.paths[0], "cpu_op")
    assert "aten::add" in names(prof)


def test_loop_that_ends_too_early(profile):
    with pytest.warns(
        UserWarning, match=r"6 steps were needed \(wait 1, warmup 2, active 3\), 2 were seen; nothing was recorded"
    ) as caught:
        with profile(activities=[CPU], schedule=tg.schedule(wait=1, warmup=2, active=3, repeat=1)) as prof:
            loop(prof, 2)
    assert caught[0].filename == __file__
    assert names(prof, "cpu_op") == []


def test_partial_window_says_so(profile):
    with pytest.warns(UserWarning, match=r"10 steps were needed \(wait 1, warmup 4, active 5\), 8 were seen$"):
        with profile(activities=[CPU], schedule=tg.schedule(wait=1, warmup=4, active=5, repeat=1)) as prof:
            loop(prof, 8)
    assert steps(prof) == [5, 6, 7, 8]


def test_complete_window_says_nothing(profile):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile(activities=[CPU], schedule=tg.schedule(wait=1, warmup=1, active=2, repeat=1)) as prof:
            loop(prof, 4)
        with profile(activities=[CPU], schedule=tg.schedule(wait=1, warmup=1, active=2, repeat=1)) as prof:
            loop(prof, 3)  # the last step was never closed, but it was recorded
    assert steps(prof) == [2, 3]


def test_handler_is_called_once_a_window(profile):
    for repeat in (1, 2):
        called = []
        with profile(
            activities=[CPU],
            schedule=tg.schedule(wait=1, warmup=1, active=1, repeat=repeat),
            on_trace_ready=called.append,
        ) as prof:
            loop(prof, 8)
        assert called == [prof] * repeat


@pytest.mark.parametrize("backend", BACKENDS)
def test_low_level_profile(backend):
    prof = tg._KinetoProfile(activities=[CPU], backend=backend)
    with pytest.raises(AssertionError, match="Profiler must be initialized before"):
        prof.export_chrome_trace("never.json")
    prof.start()
    torch.ones(2).mul(3)
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.key_averages()
    prof.stop()
    assert "aten::mul" in names(prof)


# ---- files -------------------------------------------------------------------------------------------------


def test_export_any_number_of_times(profile, tmp_path):
    files = Files(tmp_path)
    with profile(activities=[CPU], on_trace_ready=files) as prof:
        torch.ones(3).add(1)
    for name in ("second.json", "third.json.gz", "fourth.json"):
        prof.export_chrome_trace(str(tmp_path / name), use_python_export=name.startswith("fourth"))
    documents = [
        load(files.paths[0]),
        *(load(tmp_path / name) for name in ("second.json", "third.json.gz", "fourth.json")),
    ]
    assert all(document == documents[0] for document in documents)
    assert documents[0]["traceName"] == files.paths[0]
    assert sorted(os.listdir(tmp_path)) == ["fourth.json", "second.json", "third.json.gz", "window0.json"]


@pytest.mark.parametrize("packed", [False, True])
def test_tensorboard_handler(profile, tmp_path, packed):
    folder = tmp_path / "logs" / "rank_0"
    with profile(
        activities=[CPU],
        schedule=tg.schedule(wait=0, warmup=1, active=1, repeat=2),
        on_trace_ready=tg.tensorboard_trace_handler(str(folder), use_gzip=packed),
    ) as prof:
        loop(prof, 5)
    found = sorted(os.listdir(folder))
    pattern = rf".+_{os.getpid()}\.\d+\.pt\.trace\.json" + (r"\.gz" if packed else "")
    assert len(found) == 2 and all(re.fullmatch(pattern, name) for name in found)
    for number, name in enumerate(found):
        document = load(folder / name)
        assert document["schemaVersion"] == 1 and "deviceProperties" in document
        assert steps(folder / name) == [2 * number + 1]


def test_handler_names_and_errors(tmp_path):
    class Exporter:
        def export_chrome_trace(self, path, use_python_export):
            self.path = path

    exporter = Exporter()
    tg.tensorboard_trace_handler(tmp_path / "a", worker_name="worker7", use_gzip=True)(exporter)
    assert re.fullmatch(r"worker7\.\d{19}\.pt\.trace\.json\.gz", os.path.basename(exporter.path))
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="^Can't create directory: .*file/sub$"):
        tg.tensorboard_trace_handler(str(tmp_path / "file" / "sub"))(exporter)


def test_keep_last(profile, tmp_path):
    """The last window is cut short, so its file goes; disk, tables and exports have the last complete one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile(
            activities=[CPU],
            schedule=tg.schedule(wait=1, warmup=1, active=3),
            keep_last=1,
            on_trace_ready=tg.tensorboard_trace_handler(str(tmp_path)),
        ) as prof:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loop(prof, 12)
    assert [steps(tmp_path / name) for name in os.listdir(tmp_path)] == [[7, 8, 9]]
    rows = {row.key: row.count for row in prof.key_averages() if row.key.startswith("ProfilerStep")}
    assert set(rows) in ({"ProfilerStep*"}, {"ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"})
    assert sum(rows.values()) == 3
    prof.export_chrome_trace(str(tmp_path / "again.json"))
    assert steps(tmp_path / "again.json") == [7, 8, 9]
    with pytest.raises(ValueError, match="keep_last=0"):
        profile(keep_last=0)


@pytest.mark.parametrize(
    "loop_steps, kept", [(3, [[2, 3]]), (10, [[2, 3, 4], [7, 8, 9]]), (12, [[2, 3, 4], [7, 8, 9]])]
)
def test_keep_last_of_two(profile, tmp_path, loop_steps, kept):
    """Steps 2 to 4, 7 to 9 and 12 to 14 are recorded: a window that is cut short stays only where none is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(
            activities=[CPU],
            schedule=tg.schedule(wait=1, warmup=1, active=3),
            keep_last=2,
            on_trace_ready=tg.tensorboard_trace_handler(str(tmp_path)),
        ) as prof:
            loop(prof, loop_steps)
    assert sorted(steps(tmp_path / name) for name in os.listdir(tmp_path)) == kept


def test_endless_schedule_is_reported(profile, tmp_path):
    with pytest.warns(UserWarning, match=r"the schedule has no end \(repeat=0\)") as caught:
        with profile(
            activities=[CPU], schedule=tg.schedule(wait=0, warmup=1, active=2), on_trace_ready=Files(tmp_path)
        ) as prof:
            loop(prof, 7)  # two windows, and one that the end cuts
    assert sum("no end" in str(w.message) for w in caught) == 1


def test_one_line_for_each_file(profile, tmp_path, caplog):
    caplog.set_level(logging.INFO, "tachograph")
    with profile(activities=[CPU]) as prof:
        torch.ones(3).add(1)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    size = os.path.getsize(tmp_path / "trace.json")
    shown = f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"
    count = sum(e["ph"] == "X" for e in load(tmp_path / "trace.json")["traceEvents"])
    assert lines == [f"{tmp_path}/trace.json ({shown}, {count} events); see tachograph report {tmp_path}/trace.json"]


def test_line_reaches_standard_error_alone(forks, tmp_path):
    program = (
        "import torch, tachograph as tg\nwith tg.profile(activities=[tg.ProfilerActivity.CPU], backend='kineto') as p: torch.ones(2)\n"
        f"p.export_chrome_trace({str(tmp_path / 'a.json')!r})"
    )
    program += f"\nimport os; os.environ['TACHOGRAPH_QUIET'] = '1'; tg.log.handlers.clear(); p.export_chrome_trace({str(tmp_path / 'b.json')!r})"
    program = program.replace("tg.log", "__import__('logging').getLogger('tachograph')")
    done = forks.run(program)
    assert done.returncode == 0 and done.stdout == "" and os.path.exists(tmp_path / "b.json")
    assert [line.split(" (")[0] for line in done.stderr.splitlines() if line.startswith("tachograph:")] == [
        f"tachograph: {tmp_path}/a.json"
    ]


def test_private_folder_goes_with_the_profiler(profile):
    with profile(activities=[CPU]) as prof:
        torch.ones(2)
    folder = prof._windows[0].directory
    assert len(prof.trace.ask("tracks")) > 0 and os.path.isdir(folder)
    del prof
    gc.collect()
    assert not os.path.exists(folder)


# ---- activities --------------------------------------------------------------------------------------------


@needs_no_cuda
@pytest.mark.parametrize(
    "activities, text",
    [
        ([CPU, CUDA], "^CUDA is not available, disabling CUDA profiling$"),
        ([CUDA], "^CUDA is not available, disabling CUDA profiling; recording the CPU instead$"),
        ([CPU, XPU], "^XPU is not available, disabling XPU profiling$"),
        (
            [XPU, CUDA],
            "^CUDA is not available, disabling CUDA profiling; XPU is not available, disabling XPU profiling; recording the CPU instead$",
        ),
    ],
)
def test_device_that_is_not_there(profile, activities, text):
    with pytest.warns(UserWarning, match=text) as caught:
        with profile(activities=activities) as prof:
            torch.ones(3).add(1)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "aten::add" in names(prof, "cpu_op")
    assert prof.activities == set(activities) and prof.use_device is None


def test_no_arguments(profile):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile() as prof:
            torch.ones(3).add(1)
    assert "aten::add" in names(prof, "cpu_op")


# ---- what is recorded --------------------------------------------------------------------------------------


def op(prof, name):
    path = pathlib.Path(prof._windows[-1].directory) / "look.json"
    prof.export_chrome_trace(str(path))
    return next(e for e in load(path)["traceEvents"] if e["name"] == name)


def test_shapes(profile):
    layer, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
    with profile(activities=[CPU], record_shapes=True) as prof:
        layer(x)
    assert op(prof, "aten::addmm")["args"]["Input Dims"] == [[64], [8, 64], [64, 64], [], []]
    with profile(activities=[CPU]) as prof:
        layer(x)
    assert "Input Dims" not in op(prof, "aten::addmm").get("args", {})


@pytest.mark.frames
def test_modules(profile):
    """with_modules is enough for each operator to have its module's path."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof = profile(activities=[CPU], with_modules=True)
    with prof:
        model(torch.randn(2, 8))
    rows = list(prof.trace.ask("ops", by="module"))
    groups = {row["group"] for row in rows if row["name"] in ("aten::addmm", "aten::relu")}
    assert len(groups) == 3, rows
    if prof._windows[-1].kind == "native":  # torch's collector does not know where in the model a module is
        events = prof.trace.ask("events", args="Module path")
        assert [e["Module path"] for e in events if e["name"] in ("aten::addmm", "aten::relu")] == ["0", "1", "2"]
        assert {e.module_path for e in prof.events() if e.name == "aten::addmm"} == {"0", "2"}


@pytest.mark.frames
def test_modules_lie_around_their_operators():
    """A call is known only from its operators, so one operator has the very extent of its module's call."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.relu = torch.nn.Linear(8, 8), torch.nn.ReLU()

        def forward(self, x):
            return self.relu(self.linear(x))

    model, x = torch.nn.Sequential(*(Block() for _ in range(20))), torch.randn(2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the flag is ours here, with no word of torch's about it
        prof = tg.profile(activities=[CPU], with_modules=True)
    with prof:
        model(x)
    if prof._windows[-1].kind != "native":
        pytest.skip("torch's collector records modules in its own way")
    linear = [e for e in prof.events() if e.name == "aten::linear"]
    assert [e.cpu_parent.name for e in linear] == [f"nn.Module: Linear_{i}" for i in range(20)]
    assert all(e.self_cpu_time_total > 0 for e in linear)
    assert [e.cpu_parent.cpu_parent.name for e in linear] == [f"nn.Module: Block_{i}" for i in range(20)]
    modules = [e for e in prof.events() if e.name.startswith("nn.Module: ")]
    assert len(modules) == 1 + 20 + 40 and {e.self_cpu_time_total for e in modules if "Linear" in e.name} == {0}


def test_memory(profile):
    with profile(activities=[CPU], profile_memory=True, record_shapes=True) as prof:
        kept = torch.empty(1000)
        torch.empty(500)
    row = next(r for r in prof.trace.ask("memory") if r["device"] == "CPU")
    assert row["alloc_bytes"] == 4000 + 2000 and row["never_freed"] == 1
    assert kept.numel() == 1000


def test_presets(profile):
    plan = tg.profile(preset="train").schedule
    assert [plan.wait, plan.warmup, plan.active, plan.repeat] == [1, 2, 3, 1]
    assert not tg.profile(preset="lean").record_shapes
    default = tg.profile(preset="default")
    assert default.record_shapes and default.with_stack and default.with_modules and not default.profile_memory
    deep = tg.profile(preset="deep")
    assert deep.record_shapes and deep.with_stack and deep.with_modules and deep.profile_memory and deep.with_flops
    with pytest.raises(ValueError, match="preset='heavy': there are lean, default, deep, train"):
        tg.profile(preset="heavy")
    with pytest.raises(ValueError, match="backend='cupti': there are auto, native, kineto"):
        tg.profile(backend="cupti")


def test_toggle(profile):
    with profile(activities=[CPU]) as prof:
        torch.ones(3).sin()
        if prof.backend == "kineto" and not hasattr(torch.profiler.profile, "toggle_collection_dynamic"):  # torch 2.4
            with pytest.raises(RuntimeError, match="cannot be switched while it records; with backend='native' it can"):
                prof.toggle_collection_dynamic(False, [CPU])
            return
        prof.toggle_collection_dynamic(False, [CPU])
        torch.ones(3).cos()
        prof.toggle_collection_dynamic(True, [CPU])
        torch.ones(3).tan()
    found = set(names(prof, "cpu_op"))
    assert {"aten::sin", "aten::tan"} <= found and "aten::cos" not in found


# ---- metadata ----------------------------------------------------------------------------------------------


def test_metadata(profile, tmp_path):
    hard = 'quote " backslash \\ line\nend é 日本'
    prof = profile(activities=[CPU], record_shapes=True, with_flops=True)
    prof.preset_metadata_json("preset", '{"a": [1, 2.5]}')
    prof.add_metadata("before", hard)
    with prof:
        torch.ones(2)
        prof.add_metadata("within", hard)
        prof.add_metadata_json("numbers", "[1, 2]")
    prof.add_metadata_json("after", "null")
    prof.add_metadata_json("numbers", "[3]")
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    document = load(tmp_path / "a.json")
    assert document["preset"] == {"a": [1, 2.5]}
    assert document["before"] == document["within"] == hard
    assert document["numbers"] == [3] and document["after"] is None
    assert document["record_shapes"] == document["with_flops"] == 1 and "with_stack" not in document
    assert document["trace_id"] == prof.get_trace_id()


def test_preset_metadata_is_in_every_window(profile, tmp_path):
    files = Files(tmp_path)
    prof = profile(activities=[CPU], schedule=tg.schedule(wait=0, warmup=1, active=1, repeat=2), on_trace_ready=files)
    prof.preset_metadata_json("job", '"nightly"')
    with prof:
        loop(prof, 4)
    assert [load(path)["job"] for path in files.paths] == ["nightly"] * 2


@pytest.mark.parametrize("text", ["", "nope", "{1:2}", "[1,]", "NaN", '"a', "{} {}"])
def test_metadata_that_is_no_json(text):
    prof = tg.profile()
    for add in (prof.add_metadata_json, prof.preset_metadata_json):
        with pytest.raises(ValueError, match="metadata 'key': the value is not JSON"):
            add("key", text)
        with pytest.raises(ValueError, match="a member of its own"):
            add("traceEvents", "[]")
        with pytest.raises(TypeError):
            add("key", 3)


def test_trace_ids(profile, tmp_path):
    numbers = iter(range(10))
    files = Files(tmp_path)
    prof = profile(
        activities=[CPU],
        schedule=tg.schedule(wait=0, warmup=1, active=1, repeat=2),
        on_trace_ready=files,
        custom_trace_id_callback=lambda: f"run{next(numbers)}",
    )
    assert prof.get_trace_id() is None
    with prof:
        loop(prof, 2)
        prof.set_custom_trace_id_callback(lambda: "other")
        loop(prof, 2)
    assert [load(path)["trace_id"] for path in files.paths] == ["run0", "run1"]
    with profile(activities=[CPU]) as prof:
        pass
    assert re.fullmatch("[0-9A-F]{32}", prof.get_trace_id())


def test_stats(profile):
    prof = profile(activities=[CPU])
    assert prof._stats() is None
    with prof:
        torch.ones(3).add(1)
    events_of(prof)
    early = prof._stats()
    assert early.number_of_events == 0  # as in torch, until the events are asked for
    with torch.profiler.profile(activities=[CPU]) as beside:
        torch.ones(3).add(1)
    asked = [beside._stats().number_of_events]
    asked += [len(beside.events()), beside._stats().number_of_events]
    assert asked[1:] == [asked[1]] * 2 and asked[0] in (0, asked[1])  # 2.4 builds the events at the stop
    events = prof.events()
    stats = prof._stats()
    assert stats.number_of_events == len(events) == len(beside.events())
    assert early.number_of_events == len(events) and early.function_events_build_tree_call_duration_us > 0
    assert stats.parse_kineto_call_duration_us > 0 and stats.function_events_build_tree_call_duration_us > 0
    assert 0 < stats.profiling_window_duration_sec < 60
    assert set(vars(stats)) == set(vars(torch.autograd.profiler._ProfilerStats()))
    assert prof.wait_for_exports() is None and prof.take_pending_cuspy_export() is None
    assert prof.take_pending_cupti_export() is None  # the same in torch 2.14
