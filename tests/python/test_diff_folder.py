"""Diffs of folders too large to be held at once: their ranks are looked at one after the other, and the figures are
those of all of them, worked out by hand from what each rank was given to do."""

import json

import pytest
import tachograph as tg
from by_rank import by_rank

STEPS = {0: 7, 1: 5, 2: 6}  # the first five count: every rank has them


def write_rank(path, rank, slow_us, peak):
    """A step s of rank r lasts 1000 + 100 r + s us and calls `a` r + 1 times, 3 us each; rank 2 calls `b` as well, for
    slow_us, on the device too."""
    events = []

    def add(name, start, dur, cat="cpu_op", tid=1, pid=1, **args):
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, "args": args}
        )

    for s in range(STEPS[rank]):
        begin = 10_000 * s
        add(f"ProfilerStep#{s}", begin, 1000 + 100 * rank + s, "user_annotation")
        for k in range(rank + 1):
            add("a", begin + 10 * k, 3, **{"Input Dims": [[8, 4]]})
        if rank == 2:
            add("b", begin + 100, slow_us)
            add("cudaLaunchKernel", begin + 101, 1, "cuda_runtime", correlation=s + 1)
            add("gemm_kernel", begin + 200, 50, "kernel", 7, 0, device=0, stream=7, correlation=s + 1)
    for at, size, total in ((5, peak, peak), (6, -peak, 0)):
        events.append(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "s": "t",
                "args": {
                    "Device Type": 0,
                    "Device Id": -1,
                    "Addr": 64,
                    "Bytes": size,
                    "Total Allocated": total,
                    "Total Reserved": 0,
                },
            }
        )
    path.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "traceEvents": events,
                "baseTimeNanoseconds": 1_000_000_000,
                "distributedInfo": {"rank": rank, "world_size": 3, "backend": "nccl"},
            }
        )
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for slow_us in (40, 80):
        folder = tmp_path_factory.mktemp(f"run{slow_us}")
        for rank in STEPS:
            write_rank(folder / f"rank{rank}.json", rank, slow_us, 1000 * slow_us + rank)
        made.append(folder)
    return made


def diff(*traces, **options):
    with by_rank():
        return tg.diff(*traces, **options)


def rows(table):
    return {(r["by"], r["name"], r["quantity"]): (r["a"], r["b"], r["verdict"]) for r in table.to_dicts()}


def test_figures_are_means_over_the_steps_every_rank_has(folders):
    table = diff(*folders)
    found = rows(table)
    step = 1000 * sum(1000 + 100 * r + s for r in STEPS for s in range(5)) / 15
    assert found["step", "step", "mean"] == (pytest.approx(step), pytest.approx(step), "no difference")
    assert found["step", "step", "p50"][:2] == (
        1_102_000,
        1_102_000,
    )  # of steps whose figure is the mean over ranks: 1100 + s us
    assert found["op", "a", "calls"][:2] == (2, 2)
    assert found["op", "a", "cpu"][:2] == (6000, 6000)
    assert found["op", "b", "calls"][:2] == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found["op", "b", "cpu"] == (pytest.approx(40_000 / 3), pytest.approx(80_000 / 3), "slower")
    assert found["op", "b", "device"][:2] == (pytest.approx(50_000 / 3), pytest.approx(50_000 / 3))
    assert found["kernel", "gemm_kernel", "device"][:2] == (pytest.approx(50_000 / 3), pytest.approx(50_000 / 3))
    assert found["memory", "CPU", "peak"][:2] == (40_002, 80_002)  # the highest of the ranks
    assert "A: 3 steps at the end left out" in table.notes  # two of rank 0, one of rank 2
    assert "A: every figure is the mean over 3 ranks" in table.notes


def test_the_folder_is_compared_as_its_files_are(folders):
    """One rank by its number against its single file; all ranks, and a part of them, against folders that are held at
    once."""
    for by in ("all", "conditions", "name", "short_name"):
        at_once = tg.diff(*folders, by=by).to_dicts()
        assert diff(*folders, by=by).to_dicts() == at_once
        with by_rank():
            one_by_one = tg.open(folders[0])
        assert tg.diff(one_by_one, tg.open(folders[1]), by=by).to_dicts() == at_once
    for options in ({"step": "1:3"}, {"question": "ops"}):
        assert diff(*folders, **options).to_dicts() == tg.diff(*folders, **options).to_dicts()
    assert diff(*folders, rank=2).to_dicts() == tg.diff(*(f / "rank2.json" for f in folders)).to_dicts()


def test_steps_that_some_ranks_have(folders):
    """Only rank 0 has step 6; no rank has step 20."""
    found = rows(diff(*folders, step=6))
    assert found["step", "step", "mean"][:2] == (1_006_000, 1_006_000)
    assert found["op", "a", "calls"][:2] == (1, 1)
    with pytest.raises(tg.TachographError) as error:
        diff(*folders, step=20)
    assert error.value.code == "NO_DATA" and "step 20" in str(error.value)


def test_a_rank_that_is_not_there(folders):
    with pytest.raises(tg.TachographError) as error:
        diff(*folders, rank=9)
    assert error.value.code == "NO_DATA" and "3 ranks from 0 to 2" in str(error.value)
