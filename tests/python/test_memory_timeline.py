"""export_memory_timeline(): blocks placed by hand, live models, and the three forms of the file."""

import gzip
import json
import re

import pytest
import tachograph as tg
from tachograph._collect.live_tensors import LiveTensors
from tachograph._memory.page import page
from tachograph._memory.timeline import (
    Category,
    MemoryProfile,
    MemoryProfileTimeline,
    export_memory_timeline,
    read_blocks,
)

BASE = 1_000_000_000_000


def op(name, ts, dur, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def memory(ts, size, address, device=0, index=-1):
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": {"Device Type": device, "Device Id": index, "Bytes": size, "Addr": address},
    }


BACKWARD = "autograd::engine::evaluate_function: "
STEP = [
    op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100, "user_annotation"),
    op("aten::stack", 10, 50),
    memory(20, 1000, 1),  # input, by the loader
    op("aten::to", 110, 20),
    memory(115, 2000, 2),  # input, by its operator
    op("nn.Module: Net_0", 200, 300, "python_function", **{"Python id": 1, "Python module id": 0}),
    op("aten::linear", 210, 100),
    op("aten::addmm", 220, 80),
    memory(230, 300, 3),  # activation: freed in backward
    memory(240, 40, 4),
    memory(280, -40, 4),  # temporary
    op("aten::zeros", 330, 20),
    memory(335, 77, 5),  # in a module: activation
    op(BACKWARD + "AddmmBackward0", 600, 100),
    memory(610, 500, 6),
    memory(620, 60, 7),
    memory(630, -60, 7),  # gradient, temporary
    memory(640, 90, 8),  # a gradient on its way: the node of a leaf frees it
    op(BACKWARD + "torch::autograd::AccumulateGrad", 710, 50),
    memory(720, -90, 8),
    memory(730, -300, 3),
    op("Optimizer.step#Adam.step", 800, 200, "user_annotation"),
    op("aten::zeros_like", 810, 20),
    memory(815, 500, 9),  # state
    op("aten::sqrt", 840, 20),
    memory(845, 50, 10),
    op("aten::add_", 870, 20),
    memory(875, -50, 10),  # temporary of the step
    op("aten::zero_", 1010, 10),
    memory(1015, -500, 6),
    memory(1016, -8192, 99),
    memory(1030, 640, 11),
    memory(1040, 512, 1, 1, 1),
]


@pytest.fixture
def opened(tmp_path):
    def open_events(events):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": BASE}))
        return tg.open(path)

    return open_events


@pytest.fixture
def profile(opened, monkeypatch):
    monkeypatch.setattr(
        "tachograph._memory.timeline.LiveTensors", lambda found=(): LiveTensors(found)
    )  # other tests' models may be there
    return MemoryProfile(opened(STEP))


def test_categories(profile):
    found = {(b.device[0], b.address): b.category for b in profile.blocks}
    c = Category
    assert found == {
        ("cpu", 1): c.INPUT,
        ("cpu", 2): c.INPUT,
        ("cpu", 3): c.ACTIVATION,
        ("cpu", 4): c.TEMPORARY,
        ("cpu", 5): c.ACTIVATION,
        ("cpu", 6): c.GRADIENT,
        ("cpu", 7): c.TEMPORARY,
        ("cpu", 8): c.GRADIENT,
        ("cpu", 9): c.OPTIMIZER_STATE,
        ("cpu", 10): c.TEMPORARY,
        ("cpu", 99): None,
        ("cpu", 11): None,
        ("cuda", 1): None,
    }


def test_times_and_sizes(profile):
    times, sizes = MemoryProfileTimeline(profile)._coalesce_timeline("cpu")
    base_us = BASE // 1000
    assert times[:4] == [
        base_us + 20,
        base_us + 20,
        base_us + 115,
        base_us + 230,
    ]  # first what was there before, at the first time
    # leading 0, parameter, optimizer state, input, temporary, activation, gradient, autograd detail, unknown
    assert sizes[0] == [0, 0, 0, 0, 0, 0, 0, 0, 8192]
    assert sizes[times.index(base_us + 240)] == [0, 0, 0, 3000, 40, 300, 0, 0, 8192]
    assert sizes[times.index(base_us + 640)] == [0, 0, 0, 3000, 0, 377, 590, 0, 8192]
    assert sizes[-1] == [0, 0, 500, 3000, 0, 77, 0, 0, 640]


def test_devices_are_apart(profile):
    timeline = MemoryProfileTimeline(profile)
    assert timeline._coalesce_timeline("cuda:1")[1] == [[0, 0, 0, 0, 0, 0, 0, 0, 512]]
    assert timeline._coalesce_timeline("cuda:0") == timeline._coalesce_timeline("cuda") == ([], [])


def test_files(profile, tmp_path):
    plain, packed, raw, web = (tmp_path / name for name in ("m.json", "m.json.gz", "m.raw.json.gz", "m.html"))
    for path in (plain, packed, raw, web):
        export_memory_timeline(profile, str(path), "cpu")
    times, sizes = json.loads(plain.read_text())
    assert len(times) == len(sizes) and all(len(row) == 9 for row in sizes)
    assert json.loads(gzip.open(packed).read()) == [times, sizes]
    events = json.loads(gzip.open(raw).read())
    assert events[0] == [-1, 1, 8192, 7]  # preexisting, unknown
    assert events[1] == [BASE + 20_000, 2, 1000, 2]  # create, input
    assert [BASE + 730_000, 4, -300, 4] in events  # destroy, activation
    assert sum(e[2] for e in events) == sum(sizes[-1])
    text = web.read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "src=" not in text  # needs nothing else
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1).replace("<\\/", "</"))
    assert [data["times"], data["sizes"]] == [times, [row[1:] for row in sizes]] and len(data["names"]) == len(
        data["colours"]
    ) == 8


def test_a_device_without_memory_warns(profile, tmp_path):
    with pytest.warns(UserWarning, match="no memory of xpu:3 was recorded, so .* is empty; there is memory of cpu"):
        export_memory_timeline(profile, str(tmp_path / "none.json"), "xpu:3")


def test_what_is_missing_is_said(profile):
    assert any("identity" in text for text in profile.missing)


def test_frees_and_allocations_without_each_other(opened):
    blocks = read_blocks(opened([memory(1, 100, 1), memory(2, 200, 1), memory(3, -200, 1), memory(4, -50, 2)]))
    assert sorted((b.nbytes, b.made_ns is not None, b.freed_ns is not None) for b in blocks) == [
        (50, False, True),
        (100, True, True),
        (200, True, True),
    ]


def test_long_timelines_keep_their_peak():
    sizes = [[i % 7, 0] for i in range(100_000)]
    sizes[77_777] = [1_000_000, 5]
    text = page("T <b>", list(range(100_000)), sizes, ["a", "b"], ["red", "blue"], [])
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
    assert (
        [1_000_000, 5] in data["sizes"] and len(data["times"]) <= 4002 and "1,000,005" in text and "T &lt;b&gt;" in text
    )


def test_live_models_name_parameters_gradients_and_state(opened):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    weight, state = model.weight, optimizer.state[model.weight]["momentum_buffer"]
    address = {
        name: t.untyped_storage().data_ptr()
        for name, t in (("PARAMETER", weight), ("GRADIENT", weight.grad), ("OPTIMIZER_STATE", state))
    }
    made = MemoryProfile(
        opened([op("aten::empty", 0, 100), *(memory(10 + i, 64, a) for i, a in enumerate(address.values()))])
    )
    assert {b.category.name: b.address for b in made.blocks} == address
    before = sum(c.nbytes for c in made.changes["cpu", 0] if c.time_ns == -1 and c.category is Category.PARAMETER)
    assert before >= 16  # the bias, of which the recording has nothing
    freed = MemoryProfile(
        opened([op("aten::empty", 0, 100), memory(10, 64, address["PARAMETER"]), memory(20, -64, address["PARAMETER"])])
    )
    assert freed.blocks[0].category is Category.TEMPORARY  # what is there now came later
