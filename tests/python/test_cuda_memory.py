"""What CUDA itself allocates and releases, as a recording shows it and as an export writes it: moments of the device,
beside what torch's allocator reports and never added to it."""

import pytest
import tachograph as tg
from tachograph import _record
from tachograph._collect.backend import Recipe
from tachograph._collect.native_window import _features
from test_cuda_traces import FAKES, record

SCRIPT = """pool 1000000 1 1 500 0 0 0 4096 0 1048576 0
memory 2000000 1 3 501 139637976727552 5368709120 0 1 0 0 0 0 0 0
memory 3000000 1 3 502 12884901888 512 0 1 9 1 1 4096 1048576 33554432
memory 4000000 2 3 503 12884901888 512 0 1 9 1 1 4096 1048576 33554432
memory 5000000 1 2 504 4096 64 0 1 0 0 0 0 0 0
pool 6000000 3 1 505 0 0 2048 4096 33554432 1048576 0
"""
PLAIN = {"device": 0, "context": 1, "is async": False}
POOL = {"pool type": "local", "pool release threshold": 1048576}
OF_POOL = {**PLAIN, **POOL, "is async": True, "stream": 9, "pool address": 4096, "pool bytes": 33554432}
EXPECTED = [
    (
        "Memory Pool Created",
        {"device": 0, **POOL, "pool bytes": 0, "pool bytes used": 0, "correlation": 500, "Addr": 4096},
    ),
    ("Memory Allocation (Device)", {**PLAIN, "correlation": 501, "bytes": 5368709120, "Addr": 139637976727552}),
    ("Memory Allocation (Device)", {**OF_POOL, "correlation": 502, "bytes": 512, "Addr": 12884901888}),
    ("Memory Release (Device)", {**OF_POOL, "correlation": 503, "bytes": 512, "Addr": 12884901888}),
    ("Memory Allocation (Pinned)", {**PLAIN, "correlation": 504, "bytes": 64, "Addr": 4096}),
    (
        "Memory Pool Trimmed",
        {
            "device": 0,
            **POOL,
            "pool bytes": 33554432,
            "pool bytes used": 0,
            "pool bytes to keep": 2048,
            "correlation": 505,
            "Addr": 4096,
        },
    ),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    if not FAKES.is_dir():
        pytest.skip("a build with tests has the stand-ins: make build-tests")
    folder = tmp_path_factory.mktemp("memory")
    return (folder, *record(folder, SCRIPT))


def test_export(recorded):
    _, document, state = recorded
    assert state["memory_records"] == 6
    events = sorted((e for e in document["traceEvents"] if e.get("cat") == "gpu_memory"), key=lambda e: e["ts"])
    assert [(e["name"], e["args"]) for e in events] == EXPECTED
    assert {(e["ph"], e["s"], e["pid"], e["tid"]) for e in events} == {("i", "t", 0, -1)}
    assert [round(e["ts"] - events[0]["ts"], -1) for e in events] == [1000 * n for n in range(6)]


def test_questions(recorded):
    trace = tg.open(recorded[0] / "run.tacho")
    rows = trace.ask("events", by="mark", args="Addr,bytes,stream", where="category == 'gpu_memory'").to_dicts()
    assert [(row["name"], row["Addr"]) for row in rows] == [(name, args["Addr"]) for name, args in EXPECTED]


def test_nothing_is_counted_twice(recorded):
    """Questions about memory count what allocators report; here there was none."""
    with pytest.raises(tg.TachographError, match="no \\[memory\\] events"):
        tg.open(recorded[0] / "run.tacho").ask("memory")


@pytest.mark.parametrize(
    "device, memory, expected", [("cuda", True, True), ("cuda", False, False), (None, True, False)]
)
def test_profile_memory_asks_for_it(device, memory, expected):
    recipe = Recipe(activities=frozenset(), use_device=device, profile_memory=memory)
    assert bool(_features(recipe) & _record.CUDA_MEMORY) == expected
