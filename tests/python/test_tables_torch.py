"""The same program's events in torch's tables and in ours: torch records once, keeps its own list, and writes the trace
that ours is made from. Values are equal to the nanosecond, texts to the byte. Allowed differences, each for its reason:
- Python rows are filtered out of torch's list where ours leaves them out by default, as torch 2.15 does;
- addresses of objects are taken out of torch's stacks before grouping: they tell equal call sites apart;
- threads: torch counts them, the trace has the system's numbers;
- shares and the footer where a row holds more than all rows' self times, because Python functions in it have no row:
  torch prints shares above 100 %, ours are of everything recorded (docs/tables.md)."""

import inspect
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph._events.event_list import EventList
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import profiler_util
from torch.profiler import (
    ProfilerActivity,
    profile as torch_profile,
    record_function,
)

if "capture_overload_names:" not in _ExperimentalConfig.__init__.__doc__:
    pytest.skip(
        "torch before 2.7 has no overloads and no Python rows to leave out: its tables are other ones",
        allow_module_level=True,
    )

FIELDS = (
    "key",
    "count",
    "node_id",
    "input_shapes",
    "overload_name",
    "scope",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "is_user_annotation",
    "is_async",
)
TIMES = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total")
OPTIONS = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "flops": {"with_flops": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True, "experimental_config": {"verbose": True}},
    "overloads": {"experimental_config": {"capture_overload_names": True}},
    "all": {
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": True,
        "with_flops": True,
        "experimental_config": {"verbose": True, "capture_overload_names": True},
    },
}
GROUPS = {
    "name": (),
    "shape": (True,),
    "stack": (False, 4),
    "overload": (False, 0, True),
    "everything": (True, 3, True),
}


def step(model, images, optimizer):
    with record_function("forward"):
        hidden = model(images)
        loss = torch.cat([hidden, hidden * 2], 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def record(options):
    options = dict(options)
    if "experimental_config" in options:
        options["experimental_config"] = _ExperimentalConfig(**options["experimental_config"])
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 8),
        torch.nn.Linear(8, 8),
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    images = torch.randn(2, 3, 8, 8)
    step(model, images, optimizer)
    with torch_profile(
        activities=[ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=0, warmup=0, active=3), **options
    ) as prof:
        for _ in range(3):
            step(model, images, optimizer)
            prof.step()
    return prof


def without_addresses(stack):
    return [re.sub(r" at 0x[0-9a-f]+", "", frame) for frame in stack]


class Pair:
    """torch's profile, and our list of the trace it wrote."""

    def __init__(self, name, path):
        torch.set_num_threads(1)
        self.prof = record(OPTIONS[name])
        self.prof.export_chrome_trace(str(path))
        self.ours = EventList.from_trace(tg.open(path), self.prof)
        for event in self.prof.events():
            event.stack = without_addresses(event.stack)

    def theirs(self, python):
        events = self.prof.events()
        kept = profiler_util.EventList(
            [e for e in events if python or not e.is_python_function],
            use_device=None,
            profile_memory=events._profile_memory,
            with_flops=events._with_flops,
        )
        kept._tree_built = True
        return kept


@pytest.fixture(scope="module", params=OPTIONS)
def pair(request, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Pair(request.param, tmp_path_factory.mktemp(request.param) / "trace.json")


def averages(pair, group, python=False):
    with warnings.catch_warnings():  # grouping by what was not recorded
        warnings.simplefilter("ignore")
        ours = pair.ours.key_averages(*(GROUPS[group] + (False, 0, False)[len(GROUPS[group]) :]), python)
    theirs = pair.theirs(python).key_averages
    asked = (
        {"include_python_functions": python}
        if "include_python_functions" in inspect.signature(theirs).parameters
        else {}
    )  # 2.15 has it
    return theirs(*GROUPS[group], **asked), ours


def shares_impossible(rows):
    return any(e.cpu_time_total > sum(row.self_cpu_time_total for row in rows) for e in rows)


def without_shares(text):
    """Nor the row of Python functions, which only ours has."""
    text = "".join(line for line in text.splitlines(True) if not line.strip().startswith("Python, left out"))
    return re.sub(r" +\d+\.\d\d%|(?<=Self CPU time total: ).*", " #", text)


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("group", GROUPS)
def test_rows_are_equal(pair, group, python):
    theirs, ours = averages(pair, group, python)
    assert [e.key for e in ours] == [e.key for e in theirs]
    for a, b in zip(theirs, ours):
        for field in FIELDS:
            assert getattr(b, field) == getattr(a, field), (a.key, field)
        assert b.stack == a.stack and str(b.device_type) == str(a.device_type)
        for field in TIMES:
            assert getattr(b, field) == pytest.approx(getattr(a, field), abs=1e-6), (a.key, field)
        if pair.prof.with_flops:
            assert b.flops == a.flops, a.key


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"sort_by": "self_cpu_time_total", "row_limit": 5},
        {"sort_by": "cpu_memory_usage", "header": "Memory"},
        {"sort_by": "count", "time_unit": "ms", "max_name_column_width": 20, "max_shapes_column_width": 30},
        {"max_src_column_width": 25, "max_name_column_width": None},
    ],
    ids=lambda how: how.get("sort_by", str(len(how))),
)
@pytest.mark.parametrize("group", GROUPS)
def test_text_is_equal(pair, group, how):
    """torch's own table of the very same rows, so that halves are rounded alike."""
    _, ours = averages(pair, group)
    if pair.prof.with_flops and any(e.stack for e in ours):
        how = {**how, "row_limit": 0}  # torch swaps the two last columns of each row
    theirs = profiler_util._build_table(
        ours, profile_memory=pair.prof.profile_memory, with_flops=pair.prof.with_flops, **how
    )
    texts = ours.table(**how), theirs
    if shares_impossible(ours):
        texts = tuple(without_shares(text) for text in texts)
    assert texts[0] == texts[1]


def test_text_of_torchs_own_rows(pair):
    """Line by line, but for numbers whose third decimal hangs on how torch's sums of floats were rounded."""
    averaged = averages(pair, "name")
    texts = [rows.table(sort_by="count") for rows in averaged]
    if shares_impossible(averaged[1]):
        texts = [without_shares(text) for text in texts]
    theirs, ours = (text.splitlines() for text in texts)
    assert len(ours) == len(theirs)
    number = re.compile(r"-?\d+\.\d+")
    for a, b in zip(theirs, ours):
        assert number.sub("#", b) == number.sub("#", a)
        for x, y in zip(number.findall(a), number.findall(b)):
            assert abs(float(x) - float(y)) <= 10.0 ** -len(x.split(".")[1]) * 1.0001


def test_events_are_equal(pair):
    theirs, ours = pair.prof.events(), pair.ours
    assert [e.name for e in ours] == [e.name for e in theirs]
    assert [e.trace_name for e in ours if e.overload_name == ""] == [
        e.trace_name for e in theirs if e.overload_name == ""
    ]
    threads = {}
    for a, b in zip(theirs, ours):
        assert threads.setdefault(a.thread, b.thread) == b.thread
        for field in (
            "input_shapes",
            "structured_input_shapes",
            "structured_input_strides",
            "overload_name",
            "cpu_memory_usage",
            "self_cpu_memory_usage",
            "is_python_function",
            "is_user_annotation",
            "scope",
            "is_async",
            "node_id",
            "activity_type",
        ):
            assert getattr(b, field) == getattr(a, field), (a.name, field)
        assert without_addresses(b.stack) == a.stack
        assert b.time_range.elapsed_us() == pytest.approx(a.time_range.elapsed_us(), abs=1e-6)
        assert b.self_cpu_time_total == pytest.approx(a.self_cpu_time_total, abs=1e-6)
        assert (b.cpu_parent and b.cpu_parent.name) == (a.cpu_parent and a.cpu_parent.name)
        assert [c.name for c in b.cpu_children] == [c.name for c in a.cpu_children]
        if a.sequence_nr >= 0:
            assert b.sequence_nr == a.sequence_nr


def test_totals_are_equal(pair):
    theirs, ours = pair.prof.events().total_average(), pair.ours.total_average()
    assert (ours.key, ours.count, ours.self_cpu_memory_usage) == (
        theirs.key,
        theirs.count,
        theirs.self_cpu_memory_usage,
    )
    assert ours.self_cpu_time_total == pytest.approx(theirs.self_cpu_time_total, abs=1e-3)
    assert pair.ours.self_cpu_time_total == pytest.approx(pair.prof.events().self_cpu_time_total, abs=1e-3)


def test_shares_add_up(pair):
    rows = averages(pair, "name")[1]
    rows.table(row_limit=-1)
    shown = sum(row.self_cpu_time_total for row in rows)
    whole = shown + (rows.python_time_left_out if shares_impossible(rows) else 0)
    total = sum(float(e.self_cpu_percent.rstrip("%")) for e in rows)
    assert total == pytest.approx(100 * shown / whole, abs=0.005 * len(rows))
    assert all(float(e.total_cpu_percent.rstrip("%")) <= 100 for e in rows)


def test_events_by_hand_in_our_list():
    """torch's classes and ours say the same of events made by hand."""

    def tree(module):
        a = module.FunctionEvent(
            1, "a", 1, 0, 100, cpu_memory_usage=50, use_device="cuda", flops=1, input_shapes=[], stack=[]
        )
        b = module.FunctionEvent(
            2, "b", 1, 10, 40, cpu_memory_usage=20, use_device="cuda", flops=12, input_shapes=[[1]], stack=["x", "y"]
        )
        a.append_cpu_child(b)
        b.set_cpu_parent(a)
        b.append_kernel("k", 0, 7)
        c = module.FunctionEvent(
            3,
            "k",
            7,
            20,
            27,
            use_device="cuda",
            device_type=torch.autograd.DeviceType.CUDA,
            flops=0,
            input_shapes=[],
            stack=[],
        )
        events = module.EventList([a, b, c], use_device="cuda", profile_memory=True)
        events._tree_built = True
        return events

    import tachograph._events.event_list as ours

    mine, torchs = tree(ours), tree(profiler_util)
    assert repr(list(mine)) == repr(list(torchs))
    assert repr(mine.key_averages()[1]) == repr(torchs.key_averages()[1])
    assert mine.table(header="t") == torchs.table(header="t")
