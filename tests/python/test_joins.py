"""A question about all ranks of a folder that is read rank by rank answers as it does with all of them in memory."""

import json
import math
import subprocess

import pytest
import tachograph as tg
import traces
from by_rank import open_by_rank


@pytest.fixture(scope="module", params=range(3))
def folder(request, tmp_path_factory):
    ranks = traces.build(
        1000 + request.param, ranks=3, size=150, grain=(1, 7, 1000)[request.param], steps=(2, 3, 0)[request.param]
    )
    folder = tmp_path_factory.mktemp("ranks")
    traces.write(ranks, folder, 1, plain=True)
    (folder / "zz.json").write_bytes(b" " * 10)  # no trace
    return folder


def rows_of(trace, question, **arguments):
    """What was never recorded has no rows."""
    try:
        return trace.ask(question, **arguments).to_dicts()
    except tg.TachographError as e:
        assert e.code == "NO_DATA"
        return []


def key(row):
    return json.dumps([f"{v:.9g}" if isinstance(v, float) else v for v in row.values()])


def compare(one, other):
    assert len(one) == len(other)
    for a, b in zip(sorted(one, key=key), sorted(other, key=key)):
        for name in a:
            if isinstance(a[name], float) and isinstance(b[name], float):
                assert math.isclose(a[name], b[name], rel_tol=1e-11, abs_tol=1e-9), (name, a, b)
            else:
                assert a[name] == b[name], (name, a, b)


@pytest.mark.parametrize(
    "question,order",
    [("ops", "self_device_ns"), ("kernels", "total_ns"), ("top", "total_ns"), ("stacks", "self_cpu_ns")],
)
def test_what_costs_most_is_on_top(folder, question, order):
    rows = rows_of(open_by_rank(folder), question)
    assert [r[order] for r in rows] == sorted((r[order] for r in rows), reverse=True)


def test_rows_are_chosen_after_they_are_one(folder):
    """No rank by itself has as many calls as all together, and what is chosen by that must see the sum."""
    trace, calls = open_by_rank(folder), {}
    for rank in range(3):
        for row in rows_of(trace, "ops", rank=rank):
            calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
    most = max(calls.values())
    chosen = trace.ask("ops", where=f"calls = {most}").to_dicts()
    assert sorted(r["name"] for r in chosen) == sorted(name for name, n in calls.items() if n == most)
    assert [r["calls"] for r in trace.ask("ops", limit=2, sort="calls desc")] == sorted(calls.values())[:-3:-1]


def test_the_command_line_answers_in_one_reading(folder, tachograph_path, by_rank_path):
    def ask(program, *words):
        run = subprocess.run([program, "ask", str(folder), *words, "--json"], capture_output=True, timeout=600)
        assert run.returncode == 0, run.stderr
        table = json.loads(run.stdout)
        return [dict(zip([c["name"] for c in table["columns"]], row)) for row in table["rows"]], table["losses"]

    for words in (
        ("ops",),
        ("events", "--where", "rank = 1 and dur_ns > 3000"),
        ("events", "--where", "dur_ns > 3000", "--sort", "dur_ns desc, id asc", "--limit", "7"),
        ("kernels", "--by", "op"),
        ("tracks",),
        ("key_averages",),
        ("events", "--limit", "5"),
    ):
        (at_once, lost), (one_by_one, lost_too) = (ask(program, *words) for program in (tachograph_path, by_rank_path))
        compare(at_once, one_by_one)
        assert lost == lost_too and [loss["name"] for loss in lost] == ["skipped_file"]


def test_a_file_that_is_no_trace_is_named(folder):
    for open_folder in (tg.open, open_by_rank):
        files = [r for r in open_folder(folder).ask("losses") if r["loss"] == "skipped_file"]
        assert [(r["rank"], r["file"], r["kind"], r["count"]) for r in files] == [
            (None, str(folder / "zz.json"), "file", 1)
        ]
        assert "nothing but blanks" in files[0]["meaning"]
        assert "1 file not read (zz.json)" in open_folder(folder).report()


def work_events(rank, late_us, steps=6):
    """Steps of 10 ms: the rank computes for 2 ms and `late_us` more, and is in a collective from then to the end of the
    9th ms."""
    events = []
    for step in range(steps):
        t, busy = 20_000 * step, 2000 + late_us
        events += [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": t,
                "dur": 10_000,
            },
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": t + 100, "dur": 50},
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": 1,
                "tid": 1,
                "ts": t + 110,
                "dur": 20,
                "args": {"correlation": 2 * step + 1},
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "pid": 0,
                "tid": 7,
                "ts": t + 200,
                "dur": busy,
                "args": {"device": 0, "stream": 7, "correlation": 2 * step + 1},
            },
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": 1,
                "tid": 1,
                "ts": t + 150,
                "dur": 20,
                "args": {"correlation": 2 * step + 2},
            },
            {
                "ph": "X",
                "cat": "kernel",
                "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "pid": 0,
                "tid": 20,
                "ts": t + 200 + busy,
                "dur": 8800 - busy,
                "args": {"device": 0, "stream": 20, "correlation": 2 * step + 2},
            },
        ]
    return events


@pytest.fixture(scope="module", params=[0, 4000], ids=["even", "rank 2 is late"])
def job(request, tmp_path_factory):
    """A job of three ranks and a file without any event of them, which the others' answers are not about: (folder,
    is rank 2 late)."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(3):
        document = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 3},
            "traceEvents": work_events(rank, request.param if rank == 2 else 0),
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    (folder / "zz.json").write_bytes(b" " * 10)
    return folder, request.param > 0


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rank": 0},
        {"rank": 2},
        {"where": "cause = 'communication-not-overlapped'"},
        {"where": "rank = 2"},
        {"limit": 1},
    ],
)
def test_what_one_rank_does_to_the_others_shows_though_no_two_are_in_memory(job, more):
    folder, late = job
    one, other = (open_folder(folder).ask("findings", **more) for open_folder in (tg.open, open_by_rank))
    assert one.to_dicts() == other.to_dicts() and one.notes == other.notes
    causes = [
        (r["cause"], r["rank"]) for r in other if r["cause"] in ("rank-straggler", "communication-not-overlapped")
    ]
    if not more and late:
        assert causes == [("rank-straggler", 2)]  # the others wait for it, so nothing of that is communication
        (found,) = [r for r in other if r["cause"] == "rank-straggler"]
        assert (found["cost_ns"], found["saving_ns"]) == (4_000_000, 4_000_000 * 2 // 3) and "waits 2.80 ms" in found[
            "evidence"
        ]
    elif not more:
        assert causes == [("communication-not-overlapped", 0)]  # one cause at one place, on all of them
        assert "; the same on 2 more ranks" in next(r["evidence"] for r in other if r["cause"] == causes[0][0])


def test_ranks_beside_others_are_not_alone_on_their_cores(tmp_path):
    """One of two processes may use half of the cores: whether it is one of two, its own file does not tell."""
    spans = [(f"ProfilerStep#{s}", "user_annotation", 10_000 * s, 10_000) for s in range(6)]
    spans += [("aten::conv2d", "cpu_op", 10_000 * s + 100, 9000) for s in range(6)]
    events = [{"ph": "X", "cat": c, "name": n, "pid": 1, "tid": 1, "ts": ts, "dur": dur} for n, c, ts, dur in spans]
    conditions = {"cpu_cores": 8, "physical_cores": 8, "threads": 2}
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"conditions": conditions, "traceEvents": events}))
    causes = [
        {row["cause"] for row in trace.ask("findings")}
        for trace in (tg.open(tmp_path / "rank0.json"), tg.open(tmp_path), open_by_rank(tmp_path))
    ]
    assert "thread-underuse" in causes[0] and "thread-underuse" not in causes[1] | causes[2]


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("ask", "findings"),
        ("ask", "findings", "--where", "cause ~ 'rank'"),
        ("ask", "findings", "--limit", "2"),
        ("ask", "findings", "--sort", "cause"),
    ],
)
def test_findings_on_the_command_line(job, tachograph_path, by_rank_path, words):
    """Also of the late rank, which no rank shows by itself."""
    folder, late = job
    answers = []
    for program in (tachograph_path, by_rank_path):
        run = subprocess.run([program, words[0], str(folder), *words[1:], "--json"], capture_output=True, timeout=600)
        assert run.returncode == 0, run.stderr
        answers.append(json.loads(run.stdout))
    at_once, one_by_one = answers
    if words == ("report",):
        assert at_once["findings"] == one_by_one["findings"]
        assert at_once["report"]["findings"]["rows"] == one_by_one["report"]["findings"]["rows"] != []
        assert ("rank-straggler" in [f["cause"] for f in one_by_one["findings"]]) == late
    else:
        assert at_once["rows"] == one_by_one["rows"] and at_once["notes"] == one_by_one["notes"]


def test_what_a_number_names_is_asked_of_its_rank_alone(folder, tachograph_path, by_rank_path):
    """A track or an event is one rank's; the limit is that of rows of all ranks, and a check of them all says what it
    always does."""

    def said(program, *words):
        run = subprocess.run(
            [program, words[0], str(folder), *words[1:], "--json"], capture_output=True, text=True, timeout=600
        )
        return run.returncode, json.loads(run.stdout) if run.stdout else run.stderr.split("\n")[0]

    tracks = [row[0] for row in said(tachograph_path, "ask", "tracks")[1]["rows"]]
    asked = [
        ("ask", "events", "--track", str(track))
        for track in (tracks[0], tracks[len(tracks) // 2], tracks[-1], len(tracks), "x")
    ]
    asked += [("ask", "call_stack", "--event", str(event)) for event in (0, 41, 79, 10**6)]
    asked += [("ask", "events", "--track", "2", "--rank", rank) for rank in ("0", "1", "2")]
    asked += [
        ("ask", "rows", "--limit", "7"),
        ("ask", "rows", "--where", "ts_us > 100"),
        ("ask", "rows", "--columns", "ts_us,name"),
        ("check",),
    ]
    for words in asked:
        (status, at_once), (other, one_by_one) = (said(program, *words) for program in (tachograph_path, by_rank_path))
        assert status == other, words
        if status not in (0, 1):
            assert at_once["error"]["text"] == one_by_one["error"]["text"]
            continue
        names = [c["name"] for c in at_once["columns"]]
        compare(*([dict(zip(names, row)) for row in answer["rows"]] for answer in (at_once, one_by_one)))
        assert at_once["notes"] == one_by_one["notes"], words
        assert (
            at_once["losses"] == one_by_one["losses"] or "--rank" in words
        )  # all together, the first rank has the file that is no trace


def module_events(rank):
    """A Linear in a Net, called 2 + rank times for 30 us, each with an operator of 10 us that launches a kernel of 5 +
    rank us; and one outside."""
    events = []

    def slice_(cat, name, ts, dur, tid=1, **args):
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 0 if cat == "kernel" else 1,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "args": args,
            }
        )

    for i in range(3 + rank):
        t, inside = 1000 * i, i < 2 + rank
        if inside:
            slice_(
                "python_function",
                "nn.Module: Net_0",
                t,
                100,
                **{"Python id": 10 * i + 1, "Python parent id": None, "Python module id": 0},
            )
            slice_(
                "python_function",
                "nn.Module: Linear_0",
                t + 10,
                30,
                **{"Python id": 10 * i + 2, "Python parent id": 10 * i + 1, "Python module id": 0},
            )
        slice_("cpu_op", "aten::mm", t + 15, 10, **{"External id": i + 1})
        slice_("cuda_runtime", "cudaLaunchKernel", t + 16, 2, correlation=i + 1)
        slice_("kernel", "gemm", t + 20, 5 + rank, tid=7, device=0, stream=7, correlation=i + 1)
    return events


@pytest.mark.parametrize("by", ["tree", "class"])
@pytest.mark.parametrize("open_folder", [tg.open, open_by_rank], ids=["at once", "one by one"])
def test_modules_of_all_ranks(tmp_path, open_folder, by):
    for rank in range(3):
        document = {"distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": module_events(rank)}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"schemaVersion": 1, **document}))
    rows = open_folder(tmp_path).ask("modules", by=by).to_dicts()
    (outside,) = [r for r in rows if r["name"] == "(outside of modules)"]
    kernels = sum((3 + rank) * (5 + rank) for rank in range(3))  # us
    assert outside["device_ns"] == 18_000 and math.isclose(
        outside["pct"], 100 * 18 / kernels
    )  # one kernel of each: 5 + 6 + 7 us
    linear = [r for r in rows if r["name"].startswith("Linear")]
    assert [(r["rank"], r["calls"]) for r in linear] == ([(0, 2), (1, 3), (2, 4)] if by == "tree" else [(None, 9)])
