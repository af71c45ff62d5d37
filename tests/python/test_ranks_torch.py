"""Two real ranks: gloo on the CPU, recorded by `tachograph run` as the program is, and analysed together."""

import json
import os
import subprocess
import sys
import textwrap

import peers
import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

PROGRAM = """
    import os, time
    import torch, torch.distributed as dist

    def work(rank):
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=2)
        for i in range(6):
            torch.ones(64, 64) @ torch.ones(64, 64)
            if rank == 0:
                open(f"arrived_{i}", "w").close()
            else:
                while not os.path.exists(f"arrived_{i}"):  # a busy machine may let rank 0 come late
                    time.sleep(0.001)
                time.sleep(0.2)  # longer than a busy machine makes rank 0 wait for a core
            dist.all_reduce(torch.ones(1000))
            dist.broadcast(torch.ones(250, dtype=torch.float64), 0)
        dist.destroy_process_group()

    if __name__ == "__main__":
        torch.multiprocessing.spawn(work, nprocs=2)
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gloo")
    (folder / "job.py").write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "tachograph", "run", "-o", "out", "--seconds", "600", "job.py"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out", done.stdout + done.stderr


@pytest.fixture
def ask(tachograph, recording):
    def rows(question, *words):
        answer = json.loads(tachograph("ask", recording[0], question, *words, "--json").stdout)
        return [dict(zip([c["name"] for c in answer["columns"]], row)) for row in answer["rows"]]

    return rows


def test_both_ranks_are_in_one_report_on_one_clock(ask, recording):
    assert "2 ranks of 2" in recording[1]
    ranks = ask("ranks")
    assert [r["rank"] for r in ranks] == [0, 1] and [r["collectives"] for r in ranks] == [12, 12]
    # Both clocks are the machine's, so what is found must hold 0 between its bounds: no collective ends before it began
    # elsewhere.
    clock = ask("clocks")[1]
    assert (
        clock["collectives"] == 6
        and clock["low_ns"] <= 0 <= clock["high_ns"]
        and abs(clock["offset_ns"]) <= clock["error_ns"]
    )


def test_spans_are_listed_with_their_bytes(ask):
    spans = [(r["kind"], r["bytes"]) for r in ask("collectives", "--by", "part", "--rank", "0")]
    assert sorted(spans) == [("all_reduce", 4000)] * 6 + [("broadcast", 2000)] * 6
    assert [
        (r["kind"], r["calls"], r["bytes"])
        for r in ask("collectives", "--rules", "plugin", "--by", "rank", "--rank", "1")
    ] == [("gloo:all_reduce", 6, 24000), ("gloo:broadcast", 6, 12000)]


def test_the_rank_that_sleeps_is_named(ask):
    worst = ask("stragglers")[0]
    assert worst["rank"] == 1 and worst["cause"] == "host" and worst["last"] >= 5
    reduced = [r for r in ask("collectives", "--by", "part") if r["kind"] == "all_reduce"]
    waits = [sum(r["wait_ns"] for r in reduced if r["rank"] == rank) for rank in range(2)]
    assert waits[0] > 100_000_000 and waits[0] > 2 * waits[1]


TRAINING = """
    import os
    import torch, torch.distributed as dist

    def train(rank):
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=2)
        torch.set_num_threads(1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(40):
            optimizer.zero_grad()
            rows = torch.randn(800 if rank else 200, 300)
            model(rows).square().mean().backward()
            optimizer.step()
        dist.barrier()
        dist.destroy_process_group()

    if __name__ == "__main__":
        torch.multiprocessing.spawn(train, nprocs=2)
"""


def test_the_model_of_the_steps_joins_ranks_where_they_average_gradients(tachograph, tmp_path):
    """A step of DistributedDataParallel averages once: each rank asks for it and waits for it, and it for all."""
    (tmp_path / "job.py").write_text(textwrap.dedent(TRAINING))
    command = [sys.executable, "-m", "tachograph", "run", "-o", "out", "job.py"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(tachograph("ask", tmp_path / "out", "step_model", "--json").stdout)
    rows = [dict(zip([c["name"] for c in answer["columns"]], row)) for row in answer["rows"]]
    (note,) = [n for n in answer["notes"] if n.startswith("Collectives in which the ranks wait")]
    met = int(note.removesuffix(".").rpartition(" ")[2])
    assert min(row["steps"] for row in rows) - 2 <= met
    # A busy machine may let a rank come so late that the gap behind its call says nothing.
    assert all(1.5 * met <= row["edges"] <= 2 * row["steps"] for row in rows), (met, rows)


# torch's profiler keeps the first process group that it saw, and with it gloo's threads. One of them that drops its
# last tensor while the interpreter ends needs the GIL and aborts the process (pytorch#190489): a rank that torch
# recorded leaves as soon as its file is written. We keep no group (test_a_job_is_named_in_the_file): its threads are
# joined when it is destroyed, and our ranks end as
# any program does.
EXPORTS = """
    import os, sys
    import torch, torch.distributed as dist
    import tachograph as tg

    def work(rank, place, whose):
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting_{whose}", rank=rank, world_size=2)
        face = tg if whose == "ours" else torch.profiler
        with face.profile(activities=[face.ProfilerActivity.CPU], schedule=face.schedule(wait=1, warmup=1, active=3, repeat=1),
                          on_trace_ready=face.tensorboard_trace_handler(place.format(rank=rank))) as prof:
            for _ in range(6):
                dist.all_reduce(torch.ones(64, 64) @ torch.ones(64, 64))
                prof.step()
        dist.destroy_process_group()
        if whose == "torchs":
            os._exit(0)

    if __name__ == "__main__":
        torch.multiprocessing.spawn(work, args=tuple(sys.argv[1:]), nprocs=2)
"""
HTA = """
    import sys
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_dir=sys.argv[1])
    try:
        told = analysis.get_temporal_breakdown(visualize=False).to_dict()
    except Exception as error:  # it has no answer without kernels
        told = type(error).__name__
    print(sorted(analysis.t.traces), told)
"""


def export(folder, place, whose):
    (folder / "export.py").write_text(textwrap.dedent(EXPORTS))
    done = subprocess.run(
        [sys.executable, "export.py", place, whose],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def test_each_rank_writes_into_a_folder_of_its_own(tachograph, tmp_path):
    export(tmp_path, "logs/rank_{rank}", "ours")
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["rank_0", "rank_1"]
    assert "2 ranks of 2" in tachograph("report", tmp_path / "logs").stdout
    answer = json.loads(tachograph("ask", tmp_path / "logs", "ranks", "--json").stdout)
    rows = [dict(zip([c["name"] for c in answer["columns"]], row)) for row in answer["rows"]]
    assert [(r["rank"], r["steps"], r["collectives"]) for r in rows] == [(0, 3, 3), (1, 3, 3)]


def test_hta_says_of_two_ranks_what_it_says_of_torchs(tmp_path):
    python = peers.found_or_made() or pytest.skip(
        "the peers are not installed: python tests/python/peers.py make, or PEERS=1"
    )
    told = []
    for whose in ("ours", "torchs"):
        export(tmp_path, whose, whose)
        done = subprocess.run(
            [str(python), "-c", textwrap.dedent(HTA), tmp_path / whose], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-2000:]
        told.append(done.stdout.splitlines()[-1])
    assert told[0].startswith("[0, 1]") and told[0] == told[1]
