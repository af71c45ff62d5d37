"""`tachograph prove`: predictions against a program whose answer is known by how it is made."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import tachograph as tg
from tachograph._prove.places import plan
from test_what_if import run

pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
PROVE = [sys.executable, "-m", "tachograph", "prove"]

# A step has an operator that sleeps for 50 ms. An operator of its thread delays it by its own delay; a thread
# beside it calls two operators meanwhile, which nothing waits for.
SLEEPS = """
    import time, torch
    mine = torch.library.Library("mine", "DEF")
    mine.define("pause(float seconds) -> ()")
    mine.impl("pause", time.sleep, "CompositeExplicitAutograd")
"""
BESIDE = f"""{SLEEPS}
    import queue, threading
    from torch.utils.data import DataLoader, Dataset
    torch.set_num_threads(1)

    class Rows(Dataset):
        def __len__(self):
            return 90
        def __getitem__(self, i):
            return torch.full((4,), float(i))

    def beside():
        while asked.get():
            torch.ones(3).sinh()

    asked = queue.SimpleQueue()
    threading.Thread(target=beside, daemon=True).start()
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.001)
    for epoch in range(2):
        for batch in DataLoader(Rows(), batch_size=1):
            optimizer.zero_grad()
            (w * batch).cumsum(0).sum().backward()
            asked.put(True)
            torch.ops.mine.pause(0.05)
            optimizer.step()
    asked.put(False)
    print("the program's own words")
"""


def prove(tmp_path, text, *words):
    (tmp_path / "program.py").write_text(textwrap.dedent(text))
    environment = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*PROVE, *words, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )


@pytest.mark.long
@pytest.mark.timing
def test_a_delay_on_the_path_costs_its_length_and_one_beside_it_nothing(tmp_path):
    done = prove(tmp_path, BESIDE, "--json", "-o", "out")
    answer = json.loads(done.stdout)  # the program's own words are elsewhere
    places = {place["where"]: place for place in answer["places"]}
    assert set(places) == {"on the path", "off the path", "in the loader"} and not answer["missing"], done.stderr
    total_ns = 0.2 * answer["step_ns"]
    for place in places.values():
        assert place["delay_ns"] * place["calls_per_step"] == pytest.approx(total_ns, rel=0.01)
        assert place["delayed_per_step"] == pytest.approx(place["calls_per_step"], rel=0.01)
    for where in ("on the path", "in the loader"):
        assert places[where]["predicted_ns"] == pytest.approx(total_ns, rel=0.02)
        assert places[where]["measured_ns"] == pytest.approx(total_ns, abs=0.1 * answer["step_ns"]), places[where]
    beside = places["off the path"]
    assert beside["name"] in ("aten::sinh", "aten::ones") and beside["predicted_ns"] == 0
    assert beside["measured_ns"] == pytest.approx(0, abs=0.1 * answer["step_ns"]), beside
    assert done.returncode == 0 and all(place["holds"] for place in places.values())
    assert "the program's own words" in done.stderr and "run 1: 9 comparisons to go" in done.stderr


@pytest.mark.long
@pytest.mark.timing
def test_the_page_and_what_the_program_does_not_have(tmp_path):
    text = f"""{SLEEPS}
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.001)
    for _ in range(150):
        optimizer.zero_grad()
        w.cumsum(0).sum().backward()
        torch.ops.mine.pause(0.01)
        optimizer.step()
    """
    done = prove(tmp_path, text, "--share", "30", "-o", "out")
    assert "delays are 30 % of it" in done.stdout and "on the path" in done.stdout, done.stderr
    assert "nothing off the path: the program has no such operator in each of its steps" in done.stdout
    assert "1 of 1 predictions within 10 % of the step" in done.stdout and done.returncode == 0


def test_a_program_without_steps_has_no_prediction(tmp_path):
    done = prove(tmp_path, "import torch\ntorch.ones(3).sum()\n", "-o", "out")
    assert done.returncode == 3 and "the steps have no model to test: " in done.stderr and not done.stdout


def test_delays_are_a_share_of_the_step_without_its_waits_for_a_core(tmp_path):
    """A step of 100 us whose thread had no core for 40 of them: a fifth of the other 60 are 12."""
    events, _ = run([("host", "a", 0, 60, 0), ("host", "b", 0, 40, 0)], 0, spread=0)
    for event in events:
        if event["name"].startswith("ProfilerStep"):
            event["args"]["Core wait us"] = 40
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(str(tmp_path / "trace.json"), progress=False) as trace:
        asked = plan(trace, 20)
    assert asked.step_ns == 60_000 and [place.where for place in asked.places] == ["on the path"]
    assert asked.places[0].total_ns == 12_000 and asked.places[0].predicted_ns == 12_000


@pytest.mark.parametrize("share", ["9", "31", "x", ""])
def test_a_share_that_is_none(tmp_path, share):
    done = prove(tmp_path, "", "--share", share)
    assert done.returncode == 2 and "--share is a percentage of the step, from 10 to 30" in done.stderr


def test_a_delay_is_as_long_as_it_is_said_to_be(tmp_path):
    """Only on its own name, and nothing is left afterwards."""
    text = """
        import time, torch
        from tachograph import _record
        def us(what):
            times = []
            for _ in range(9):
                begin = time.thread_time_ns()
                what()
                times.append((time.thread_time_ns() - begin) / 1000)
            return min(times)
        x = torch.ones(3)
        assert _record.delays_begin(["aten::sinh", "mine"]) == ""
        assert not _record.self_check()["delays"]
        def label():
            with torch.profiler.record_function("mine"):
                pass
        us(label), us(x.sinh)
        _record.delay(0, 3_000_000)
        print(us(x.sinh), us(x.cosh), us(label))
        assert _record.delayed(0) == 9 and _record.delayed(1) == 0
        _record.delay(1, 3_000_000)
        print(us(x.sinh), us(label))
        _record.delay(0, 0)
        print(us(x.sinh))
        with torch.profiler.record_function("aten::sinh"):  # of operations inside each other the outermost waits
            _record.delay(0, 3_000_000)
            within = torch.profiler.record_function("aten::sinh")
            begin = time.thread_time_ns()
            with within:
                x.sinh()
            print((time.thread_time_ns() - begin) / 1000)
        print(_record.delayed(0))
        _record.delays_end()
        print(us(x.sinh))
        assert _record.self_check()["delays"]
    """
    (tmp_path / "p.py").write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, "p.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    sinh, cosh, label, sinh_then, label_then, with_none, nested, times, after = map(float, done.stdout.split())
    assert 3000 <= sinh < 4500 and 3000 <= label_then < 4500 and 3000 <= nested < 4500 and times == 10
    assert max(cosh, label, sinh_then, with_none, after) < 1500


def test_what_delays_refuse():
    for names in (["x"] * 17, ["x" * 1024], ["a\0b"]):
        with pytest.raises(ValueError, match="16 names at most, of 1023 bytes"):
            record.delays_begin(names)
    with pytest.raises(ValueError, match="there is no place"):
        record.delay(16, 1)
