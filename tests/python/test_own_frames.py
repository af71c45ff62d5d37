"""Tachograph's own Python functions are in no stack, no event and no export, with every call of Python recorded."""

import collections
import json
import os

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph
from tachograph.profiler import profile, record_function, schedule

pytestmark = pytest.mark.frames
FOLDER = os.path.basename(os.path.dirname(tachograph.__file__)) + os.sep


def work(x):
    with record_function("part"):
        return x.sin()


@record_function("decorated")
def decorated(x):
    return x.cos()


def test_own_functions_are_transparent(tmp_path):
    x = torch.ones(2)
    with profile(with_stack=True, schedule=schedule(wait=1, warmup=1, active=3, repeat=1)) as prof:
        for _ in range(5):
            work(x)
            decorated(x)
            prof.step()
    events = prof.events()
    names = collections.Counter(e.name for e in events)
    assert [name for name in names if FOLDER in name] == []
    assert [e.name for e in events if any(FOLDER in frame for frame in e.stack)] == []
    (work_name,) = [name for name in names if name.endswith(": work")]
    (decorated_name,) = [name for name in names if name.endswith(": decorated")]
    assert names[work_name] == names[decorated_name] == names["aten::cos"] == 3
    # its caller is the test, not the decorator's wrapper
    (test_name,) = [name for name in names if name.endswith(": test_own_functions_are_transparent")]
    for event in (e for e in events if e.name == decorated_name):
        above = event.cpu_parent
        while above.name == "decorated" or above.name.startswith("ProfilerStep"):
            above = above.cpu_parent
        assert above.name == test_name

    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    text = (tmp_path / "trace.json").read_text()
    assert [e["name"] for e in json.loads(text)["traceEvents"] if FOLDER in e.get("name", "")] == []
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_cpu_time_total")
    folded = (tmp_path / "stacks.txt").read_text()
    assert folded and FOLDER not in folded
