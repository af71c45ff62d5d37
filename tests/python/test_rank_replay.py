"""The model of the steps of several ranks: in a collective each waits for the last one. A simulator has the right
answers."""

import json
import random
import statistics

import pytest
import tachograph as tg

LAG_US, TRANSFER_US, BACK_US, TAIL_US = 5, 20, 1, 10
BASE_NS = 1_700_000_000_000_000_000
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def simulate(computes):
    """computes: by rank, then step. A rank computes, launches an all_reduce and waits for it; it transfers once all
    ranks have come. → by rank, then step: begin, launch, end of the collective, end."""
    steps, now = [[] for _ in computes], [0.0] * len(computes)
    for k in range(len(computes[0])):
        launched = [now[r] + of[k] for r, of in enumerate(computes)]
        done = max(launched) + LAG_US + TRANSFER_US
        for r in range(len(computes)):
            end = done + BACK_US + TAIL_US
            steps[r].append((now[r], launched[r], done, end))
            now[r] = end
    return steps


def events_of(steps, world):
    out = []

    def event(category, name, tid, at, dur, pid=1, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": args}
        out.append(event)

    for k, (begin, launch, done, end) in enumerate(steps):
        event("user_annotation", f"ProfilerStep#{k}", 1, begin, end - begin)
        event("cpu_op", "aten::mm", 1, begin, launch - begin)
        own = {"Collective name": "allreduce", "dtype": "Float", "Group size": world, "In msg nelems": 64, "Seq": k,
               "Process Group Name": "0"}  # fmt: skip
        event("cpu_op", "c10d::allreduce_", 1, launch, 4)
        event("cpu_op", "record_param_comms", 1, launch, 3.5, **own)
        event("user_annotation", "nccl:all_reduce", 1, launch, 3)
        event("cuda_runtime", "cudaLaunchKernelExC", 1, launch, 2, correlation=k + 1)
        at = launch + LAG_US
        event("kernel", KERNEL, 20, at, done - at, pid=0, device=0, stream=20, correlation=k + 1)
        event("cuda_runtime", "cudaDeviceSynchronize", 1, launch + 4, done + BACK_US - launch - 4)
        event("cpu_op", "aten::add_", 1, done + BACK_US, TAIL_US)
    return out


def write(folder, computes, world=None):
    """Each rank has a clock of its own, which counts from another moment."""
    folder.mkdir()
    for rank, steps in enumerate(simulate(computes)):
        document = {
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world or len(computes)},
            "baseTimeNanoseconds": BASE_NS + 1_000_000 * rank,
            "traceEvents": events_of([[t + 37 * rank for t in step] for step in steps], world or len(computes)),
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return str(folder)


def ask(path, question, **args):
    with tg.open(path) as trace:
        table = trace.ask(question, **args)
        return list(table), table.notes


def lengths(computes):
    return [end - begin for begin, _, _, end in simulate(computes)[0]]


def test_two_ranks_by_hand(tmp_path):
    """Rank 0 computes for 100 us and rank 1 for 160: a step takes 160 + 5 + 20 + 1 + 10 = 196 on both. With half of it
    on rank 1 rank 0 is the last, and a step takes 136; with half of it on both, 80 + 36 = 116."""
    path = write(tmp_path / "job", [[100] * 8, [160] * 8])
    rows, notes = ask(path, "step_model")
    assert [(row["rank"], row["verdict"], row["recorded_ns"], row["self_error_pct"]) for row in rows] == [
        (0, "proven", 196_000, 0), (1, "proven", 196_000, 0)]  # fmt: skip
    assert "Collectives in which the ranks wait for the last one in the model: 8." in notes, notes
    half = 'name = "aten::mm" 0.5'
    for args, saved in (({"on_rank": 1}, [60_000] * 2), ({}, [80_000] * 2), ({"on_rank": 0}, [0] * 2)):
        rows, _ = ask(path, "what_if", scale=half, **args)
        assert [row["saving_ns"] for row in rows] == saved, args
    rows, _ = ask(path, "what_if", scale='name = "aten::mm" 2', on_rank=0)
    assert [row["saving_ns"] for row in rows] == [-40_000] * 2  # it is the last then, by 40 us
    rows, notes = ask(path, "what_if", scale=half, on_rank=1, by="step")
    assert [(row["rank"], row["saving_ns"]) for row in rows] == [(rank, 60_000) for rank in (0, 1) for _ in range(8)]
    assert not any("Nothing" in note for note in notes)
    _, notes = ask(path, "what_if", remove='name = "no such"')
    assert any("Nothing in the steps is selected" in note for note in notes)
    for rank, saved in ((0, 50_000), (1, 80_000)):  # of one rank, with the others as they were
        ((row,), _) = ask(path, "what_if", scale=half, rank=rank)
        assert (row["rank"], row["saving_ns"]) == (rank, saved)


@pytest.mark.parametrize("seed", range(4))
def test_ranks_that_come_last_in_turn(tmp_path, seed):
    """Three ranks with steps of random length, of which two in a row are alike."""
    draw, steps = random.Random(seed), 12
    computes = [[us for _ in range(steps // 2) for us in [draw.randint(40, 200)] * 2] for _ in range(3)]
    path, before = write(tmp_path / "job", computes), lengths(computes)
    for rank in (None, 0, 1, 2):
        on = {} if rank is None else {"on_rank": rank}
        after = lengths([[us * (0.6 if rank in (None, r) else 1) for us in of] for r, of in enumerate(computes)])
        rows, _ = ask(path, "what_if", scale='name = "aten::mm" 0.6', **on)
        assert [row["verdict"] for row in rows] == ["proven"] * 3
        saved = statistics.median(b - a for b, a in zip(before, after))
        assert [row["saving_ns"] / 1000 for row in rows] == [pytest.approx(saved, abs=0.01)] * 3, rank


def test_a_rank_that_is_missing_is_named(tmp_path):
    path = write(tmp_path / "job", [[100] * 8, [160] * 8], world=3)
    rows, notes = ask(path, "step_model")
    assert len(rows) == 2
    assert "Collectives that keep their recorded length, as rank 2 has no model: 8." in notes, notes


@pytest.mark.parametrize("args", [{"on_rank": 2}, {"on_rank": "x"}, {"on_rank": 1, "rank": 0}])
def test_no_such_rank(tmp_path, args):
    path = write(tmp_path / "job", [[100] * 8, [160] * 8])
    with pytest.raises(tg.TachographError, match="on_rank"):
        ask(path, "what_if", remove='name = "aten::mm"', **args)
