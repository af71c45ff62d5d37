"""Many ranks: which collective of one rank is which of another, by hand; random runs are in test_ranks.py."""

import json

import pytest
from rank_runs import Asker, collective, simple_run, write


@pytest.fixture(scope="session")
def ask(tachograph_path):
    return Asker(tachograph_path)


def test_each_rank_numbers_its_own_transfers(ask, tmp_path):
    """Rank 1 passes on what it gets from 0, so what rank 0 calls its transfers 0 and 1 are 0 and 2 of rank 1."""
    run = [{"number": i, "base": 0, "steps": [], "collectives": []} for i in range(3)]
    for k in range(2):
        for sender in (0, 1):
            t = 1_000_000 * (2 * k + sender + 1)
            for i, number in ((sender, k if sender == 0 else 2 * k + 1), (sender + 1, 2 * k if sender == 0 else k)):
                run[i]["collectives"].append(
                    {
                        **collective(t + 1_000 * (i != sender), t + 5_000, kind="send_recv", seq=number, group="0"),
                        "ends": (sender, sender + 1),
                    }
                )
    folder = write(tmp_path / "run", run)
    assert [
        (r["group"], r["calls"], r["ranks"], r["skew_ns"], r["last_rank"])
        for r in ask(folder, "collectives", by="group")
    ] == [("0 0->1", 2, 2, 1_000, 1), ("0 1->2", 2, 2, 1_000, 2)]


def test_a_transfer_between_nobody_knows_whom(ask, tmp_path):
    for rank in range(2):
        events = [
            {
                "ph": "X",
                "cat": "kernel",
                "name": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                "pid": 0,
                "tid": 20,
                "ts": 100 + rank,
                "dur": 10,
                "args": {"device": 0, "stream": 20},
            }
        ]
        (tmp_path / f"r{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events})
        )
    (row,) = ask(tmp_path, "collectives")
    assert (row["calls"], row["ranks"], row["total_ns"], row["wait_ns"]) == (2, 1, 20_000, None)
    assert "does not say which belong together" in ask.notes(tmp_path, "collectives")


def test_a_group_made_anew_counts_from_the_beginning(ask, tmp_path):
    run = [
        {
            "number": i,
            "base": 0,
            "steps": [],
            "collectives": [
                collective(1_000_000 * (k + 1) + 2_000 * i, 1_000_000 * (k + 1) + 9_000, seq=k % 2, size=4 * k)
                for k in range(4)
            ],
        }
        for i in range(2)
    ]
    rows = ask(write(tmp_path / "run", run), "collectives", by="collective")
    assert [(r["sequence"], r["bytes"], r["ranks"], r["skew_ns"]) for r in rows] == [
        (k % 2, 4 * k, 2, 2_000) for k in range(4)
    ]


def test_ranks_that_share_nothing_with_rank_0(ask, tmp_path):
    """0 and 1 meet, and 2 and 3 do, whose clocks are an hour ahead and 7 us apart."""
    ahead, run = (0, 50, 3_600_000_000_000, 3_600_000_007_000), []
    for i in range(4):
        begins = [1_000_000 * (k + 1) + ahead[i] for k in range(3)]
        run.append(
            {
                "number": i,
                "base": 0,
                "steps": [],
                "collectives": [
                    collective(t + 300 * (i % 2), t + 5_000, group="ab"[i // 2], seq=k) for k, t in enumerate(begins)
                ],
            }
        )
    folder = write(tmp_path / "run", run)
    assert [(r["reference"], r["offset_ns"]) for r in ask(folder, "clocks")] == [(0, 0), (0, 50), (2, 0), (2, 7_000)]
    assert {(r["group"], r["skew_ns"], r["last_rank"]) for r in ask(folder, "collectives", by="group")} == {
        ("a", 300, 1),
        ("b", 300, 3),
    }
    assert "share no collective with one another: 2" in ask.notes(folder, "clocks")


@pytest.mark.parametrize(
    "kernel",
    ["oneccl_reduce_base<float, 2, 16, 1, 1, 2>", "rcclGenericKernel", "ncclSymDevKernel_AllReduce_AGxLL_R_sum_f32(x)"],
)
def test_kernels_of_other_libraries_are_collectives(ask, tmp_path, kernel):
    run = [{**r, "collectives": [{**c, "kernel": kernel} for c in r["collectives"]]} for r in simple_run()]
    (row,) = ask(write(tmp_path / "run", run), "collectives")
    assert (row["kind"], row["calls"], row["skew_ns"], row["total_ns"]) == ("all_reduce", 2, 5_000, 70_000)


def test_a_rank_among_others_is_asked_as_if_it_were_alone(ask, tmp_path):
    """Rank 0 has frames and a module; rank 1, which has neither, is not helped by what rank 0 has, and its shares are
    of its own time."""
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 10}
    frames = [
        {**op, "cat": "python_function", "name": name, "ts": 0, "dur": 40, "args": args}
        for name, args in (
            ("train.py(3): step", {"Python id": 1}),
            ("nn.Module: Linear_0", {"Python id": 2, "Python parent id": 1, "Python module id": 0}),
        )
    ]
    (tmp_path / "run").mkdir()
    for rank, events in enumerate(([*frames, op], [op])):
        (tmp_path / "run" / f"r{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events})
        )
    assert ask.run("convert", tmp_path / "run", "-o", tmp_path / "both.tacho").returncode == 0
    for question in ("stacks", "modules"):
        refused = ask.run("ask", tmp_path / "run" / "r1.json", question)
        assert (
            refused.returncode == 3 and ask.run("ask", tmp_path / "both.tacho", question, "--rank", "1").returncode == 3
        )
        assert "1 of 2 ranks" in ask.notes(tmp_path / "both.tacho", question)
        alone, among = (
            ask(tmp_path / path, question, **rank)
            for path, rank in (("run/r0.json", {}), ("both.tacho", {"rank": "0"}))
        )
        assert [{**r, "rank": 0} for r in alone] == [{**r, "rank": 0} for r in among]
