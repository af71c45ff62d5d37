"""Fifty programs that are killed at any moment: each leaves a ring that is read whole."""

import pytest

pytest.importorskip("torch")
import tachograph as tg
from forks import Forks

PROGRAM = """
import os, random, signal, time, torch, tachograph as tg
tg.flight_recorder(folder="flight", budget="1M", on=[])
pid = os.getpid()
if not os.fork():
    time.sleep(random.Random(pid).uniform(0.05, 0.6))
    os.kill(pid, 9)
    os._exit(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()
"""


def test_fifty_kills(tmp_path, tachograph):
    read = 0
    with Forks("torch", "tachograph.profiler", "tachograph._flight.ring_recorder") as forks:
        for i in range(50):
            folder = tmp_path / str(i)
            folder.mkdir()
            assert forks.run(PROGRAM, cwd=folder).returncode != 0
            (ring,) = [p for p in (folder / "flight").iterdir() if p.name.split("-")[-1].count(".") == 1]
            done = tachograph("report", ring)
            if done.returncode:
                assert "holds no finished operation" in done.stderr  # killed before the first
                continue
            read += 1
            assert "no trigger: the process was killed" in done.stdout and "invariants hold" in done.stdout
            assert len(tg.open(ring).ask("ops")) > 0
    assert read >= 40
