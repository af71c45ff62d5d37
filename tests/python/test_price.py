"""The stated cost of recording is the real one: the price that `tachograph run` prints, and the one by records,
against the same program recorded and bare in random order within one process."""

import json
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.timing

PROGRAMS = """
    import torch
    from torch import nn

    torch.set_num_threads(1)

    def small():
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
        def step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return step

    def transformer():
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        model = nn.TransformerEncoder(layer, 3)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
        x = torch.randn(4, 16, 64)
        def step():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return step
"""
RUNS = "import sys, programs\nstep = getattr(programs, sys.argv[1])()\nfor _ in range(int(sys.argv[2])): step()\n"
TRUTH = """
    import json, random, sys, time
    import programs
    from tachograph import _record
    from tachograph._collect.native import NativeRecording
    from tachograph._collect.record_cost import record_cost_ns
    from tachograph._measure.series import median_interval

    step = getattr(programs, sys.argv[1])()
    for _ in range(20):
        step()
    began = time.thread_time_ns()
    step()
    often = max(1, round(4e6 / (time.thread_time_ns() - began)))
    recording = NativeRecording(sys.argv[2], _record.DEFAULT, disk_bytes=256 << 20, keep="last")
    recording.start()
    step()
    recording.pause()
    added, bare = [], []
    for _ in range(50):
        took = {}
        for recorded in random.sample([False, True], 2):
            if recorded:
                recording.resume()
            step()
            seen, began = _record.state()["records"], time.thread_time_ns()
            for _ in range(often):
                step()
            took[recorded] = (time.thread_time_ns() - began) / often
            if recorded:
                records = (_record.state()["records"] - seen) / often
                recording.pause()
        added.append(took[True] - took[False])
        bare.append(took[False])
    recording.stop()
    bare_ns = sorted(bare)[len(bare) // 2]
    least, most = record_cost_ns(_record.DEFAULT)
    print(json.dumps({
        "truth": [100 * end / bare_ns for end in median_interval(sorted(added))],
        "records": [100 * records * cost / bare_ns for cost in (least, most)],
    }))
"""


@pytest.mark.long
@pytest.mark.parametrize("name, steps", [("small", 700), ("transformer", 160)])
def test_the_price_is_right_within_its_error(tmp_path, name, steps):
    for file, text in (("programs.py", PROGRAMS), ("runs.py", RUNS), ("truth.py", TRUTH)):
        (tmp_path / file).write_text(textwrap.dedent(text))

    def run(*words):
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    truth = run("truth.py", name, str(tmp_path / "truth.tacho"))
    said = run("-m", "tachograph", "run", "--json", "-o", "out", "runs.py", name, str(steps))
    for low, high in (said["overhead_interval_pct"], truth["records"]):
        # Both have an error: they agree where their intervals meet.
        assert low <= truth["truth"][1] and truth["truth"][0] <= high, (said["overhead_interval_pct"], truth)
    low, high = said["overhead_interval_pct"]
    assert low <= said["overhead_pct"] <= high
