"""A question about all ranks of a folder that is read rank by rank answers as it does with all of them in memory."""

import json
import math
import pathlib
import subprocess

import pytest
import tachograph as tg
import traces

BLANKS = (
    17 << 20
)  # a file of blanks beside the ranks, which is no trace, makes the folder one that is read rank by rank
BY = {  # values of the argument by, where there are several worth asking
    "steps": ["step", "summary", "whole"],
    "events": ["slice", "mark"],
    "gaps": ["gap", "cause"],
    "breakdown": ["rank", "device"],
    "overlap": ["rank", "step"],
    "kernel_types": ["rank", "all"],
    "idle": ["stream", "cause", "interval"],
    "queue": ["summary", "series"],
    "copy_bandwidth": ["summary", "op"],
    "device_metrics": ["device"],
    "totals": ["rank", "track"],
    "mfu": ["rank"],
    "memory": ["device", "time", "op"],
    "memory_blocks": ["block", "op"],
    "op_kernels": ["sequence", "call"],
    "sequences": ["pattern", "event"],
    "forward_backward": ["call"],
    "critical_path": ["op", "edge"],
    "launches": ["call", "event"],
    "launch_stats": ["kernel", "event"],
    "ops": ["name", "shape", "step", "module"],
    "kernels": ["name", "op", "config", "stream"],
    "stacks": ["line", "stack"],
    "roofline": ["name", "kind", "kernel"],
    "key_averages": ["name", "shape+overload", "event", "step"],
    "rows": ["event", "rank", "step", "name"],
    "modules": ["tree", "class"],
}
QUESTIONS = {name: BY.get(name, [""]) for name in tg.questions()}


@pytest.fixture(scope="module", params=range(3))
def folders(request, tmp_path_factory):
    """The same ranks twice: (in a folder that fits into memory, in one that is read rank by rank)."""
    ranks = traces.build(
        1000 + request.param, ranks=3, size=150, grain=(1, 7, 1000)[request.param], steps=(2, 3, 0)[request.param]
    )
    made = []
    for name in ("small", "large"):
        folder = tmp_path_factory.mktemp(name)
        traces.write(ranks, folder, 1, plain=True)
        (folder / "zz.json").write_bytes(b" " * (BLANKS if name == "large" else 10))
        made.append(folder)
    return made


def answer(trace, question, by, **more):
    try:
        rows = trace.ask(question, **({"by": by} if by else {}), **more).to_dicts()
    except tg.TachographError as e:
        assert e.code == "NO_DATA"
        return None
    rows = [
        r for r in rows if (question, r.get("quantity")) != ("overview", "skipped_file")
    ]  # all together, the first rank has it
    for row in rows:
        row.pop("text", None)  # of overview: the path
        if question == "losses":  # the folders have other names
            row["file"] = row["file"] and pathlib.Path(row["file"]).name
        row.pop("ridge", None)  # rank by rank it is that of the rank's own device, as are the next two
        row.pop("bound", None)
        row.pop("peak_pct", None)
        if question == "modules":  # a rank that records no memory does not know it, beside one that does it has none
            row.update({name: row[name] or 0 for name in ("cpu_memory_bytes", "device_memory_bytes")})
    return rows


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


@pytest.mark.parametrize("question", QUESTIONS)
def test_rank_by_rank_is_as_all_together(folders, question):
    small, large = map(tg.open, folders)
    for by in QUESTIONS[question]:
        whole, joined = answer(small, question, by), answer(large, question, by)
        assert (whole is None) == (joined is None)
        if whole is not None:
            table = large.ask(question, **({"by": by} if by else {}))
            if question == "modules" and any("left out" in note for note in table.notes):
                continue  # its time is part of the whole there
            if "rank" in table.columns and any("left out" in note for note in table.notes):
                whole = [
                    r for r in whole if r["rank"] in {j["rank"] for j in joined}
                ]  # no row of zeros for a rank without such data
            compare(whole, joined)


@pytest.mark.parametrize(
    "question,order",
    [("ops", "self_device_ns"), ("kernels", "total_ns"), ("top", "total_ns"), ("stacks", "self_cpu_ns")],
)
def test_what_costs_most_is_on_top(folders, question, order):
    rows = answer(tg.open(folders[1]), question, "")
    assert rows is None or [r[order] for r in rows] == sorted((r[order] for r in rows), reverse=True)


def test_rows_are_chosen_after_they_are_one(folders):
    """No rank by itself has as many calls as all together, and what is chosen by that must see the sum."""
    small, large = map(tg.open, folders)
    most = max(r["calls"] for r in answer(small, "ops", ""))
    assert answer(large, "ops", "", where=f"calls = {most}") == answer(small, "ops", "", where=f"calls = {most}") != []
    assert len(answer(large, "ops", "", limit=2, sort="calls desc")) == 2


def test_the_command_line_answers_in_one_reading(folders, tachograph_path):
    def ask(folder, *words):
        run = subprocess.run(
            [tachograph_path, "ask", str(folder), *words, "--json"], capture_output=True, text=True, timeout=600
        )
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
        (small, lost), (large, lost_too) = (ask(f, *words) for f in folders)
        compare(small, large)
        assert lost == lost_too and [loss["name"] for loss in lost] == ["skipped_file"]


def test_a_file_that_is_no_trace_is_named(folders):
    for folder in folders:
        files = [r for r in tg.open(folder).ask("losses") if r["loss"] == "skipped_file"]
        assert [(r["rank"], r["file"], r["kind"], r["count"]) for r in files] == [
            (None, str(folder / "zz.json"), "file", 1)
        ]
        assert "nothing but blanks" in files[0]["meaning"]
        assert "1 file not read (zz.json)" in tg.open(folder).report()


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
def jobs(request, tmp_path_factory):
    """A job of three ranks and a file without any event of them, which the others' answers are not about: (small,
    large, who is late)."""
    made = []
    for name in ("small", "large"):
        folder = tmp_path_factory.mktemp(name)
        for rank in range(3):
            (folder / f"rank{rank}.json").write_text(
                json.dumps(
                    {
                        "schemaVersion": 1,
                        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 3},
                        "traceEvents": work_events(rank, request.param if rank == 2 else 0),
                    }
                )
            )
        (folder / "zz.json").write_bytes(b" " * (BLANKS if name == "large" else 10))
        made.append(folder)
    return (*made, request.param > 0)


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
def test_what_one_rank_does_to_the_others_shows_though_no_two_are_in_memory(jobs, more):
    small, large, late = jobs
    one, other = (tg.open(f).ask("findings", **more) for f in (small, large))
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
        assert causes == [("communication-not-overlapped", r) for r in range(3)]


def test_ranks_beside_others_are_not_alone_on_their_cores(tmp_path, tachograph_path):
    """One of two processes may use half of the cores: whether it is one of two, its own file does not tell."""
    answers = []
    for name, blanks in (("small", 10), ("large", BLANKS)):
        folder = tmp_path / name
        folder.mkdir()
        for rank in range(2):
            events = [
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": f"ProfilerStep#{s}",
                    "pid": 1,
                    "tid": 1,
                    "ts": 10_000 * s,
                    "dur": 10_000,
                }
                for s in range(6)
            ]
            events += [
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": "aten::conv2d",
                    "pid": 1,
                    "tid": 1,
                    "ts": 10_000 * s + 100,
                    "dur": 9000,
                }
                for s in range(6)
            ]
            (folder / f"rank{rank}.json").write_text(
                json.dumps({"conditions": {"cpu_cores": 8, "physical_cores": 8, "threads": 2}, "traceEvents": events})
            )
        (folder / "zz.json").write_bytes(b" " * blanks)
        run = subprocess.run(
            [tachograph_path, "ask", str(folder), "findings", "--json"], capture_output=True, text=True, timeout=600
        )
        assert run.returncode == 0, run.stderr
        answers.append(json.loads(run.stdout))
    assert answers[0]["rows"] == answers[1]["rows"]
    alone = subprocess.run(
        [tachograph_path, "ask", str(tmp_path / "small" / "rank0.json"), "findings", "--json"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "thread-underuse" in alone.stdout and "thread-underuse" not in json.dumps(answers)


def test_the_report_is_the_same_however_the_ranks_are_read(jobs, tachograph_path):
    """Also of who is late, which no rank shows alone; the size of the files is another, and the folder's name."""

    def said(folder):
        run = subprocess.run(
            [tachograph_path, "report", str(folder), "--json"], capture_output=True, text=True, timeout=600
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    small, large = said(jobs[0]), said(jobs[1])
    assert (
        small["findings"] == large["findings"]
        and small["report"]["findings"]["rows"] == large["report"]["findings"]["rows"] != []
    )
    assert ("rank-straggler" in [f["cause"] for f in large["findings"]]) == jobs[2]


@pytest.mark.parametrize("words", [(), ("--where", "cause ~ 'rank'"), ("--limit", "2"), ("--sort", "cause")])
def test_findings_on_the_command_line(jobs, tachograph_path, words):
    answers = []
    for folder in jobs[:2]:
        run = subprocess.run(
            [tachograph_path, "ask", str(folder), "findings", *words, "--json"],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr
        answers.append(json.loads(run.stdout))
    assert answers[0]["rows"] == answers[1]["rows"] and answers[0]["notes"] == answers[1]["notes"]


def test_what_a_number_names_is_asked_of_its_rank_alone(folders, tachograph_path):
    """A track or an event is one rank's; the limit is that of rows of all ranks, and a check of them all says what it
    always does."""

    def said(folder, *words):
        run = subprocess.run(
            [tachograph_path, words[0], str(folder), *words[1:], "--json"], capture_output=True, text=True, timeout=600
        )
        return run.returncode, json.loads(run.stdout.replace(str(folder), "")) if run.stdout else run.stderr.split(
            "\n"
        )[0]

    tracks = [row[0] for row in said(folders[0], "ask", "tracks")[1]["rows"]]
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
        (status, small), (other_status, large) = (said(folder, *words) for folder in folders)
        assert status == other_status, words
        if status not in (0, 1):
            assert small["error"]["text"] == large["error"]["text"]
            continue
        names = [c["name"] for c in small["columns"]]
        compare([dict(zip(names, row)) for row in small["rows"]], [dict(zip(names, row)) for row in large["rows"]])
        assert small["notes"] == large["notes"], words
        assert (
            small["losses"] == large["losses"] or "--rank" in words
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
def test_modules_of_all_ranks(tmp_path, tachograph_path, by):
    answers = []
    for name, blanks in (("small", 10), ("large", BLANKS)):
        folder = tmp_path / name
        folder.mkdir()
        for rank in range(3):
            (folder / f"rank{rank}.json").write_text(
                json.dumps(
                    {
                        "schemaVersion": 1,
                        "distributedInfo": {"rank": rank, "world_size": 3},
                        "traceEvents": module_events(rank),
                    }
                )
            )
        (folder / "zz.json").write_bytes(b" " * blanks)
        run = subprocess.run(
            [tachograph_path, "ask", str(folder), "modules", "--by", by, "--json"],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr
        answers.append(json.loads(run.stdout))
    small, large = answers
    names = [c["name"] for c in small["columns"]]
    rows = [[dict(zip(names, row)) for row in a["rows"]] for a in answers]
    compare(*rows)
    assert [r["name"] for r in rows[0]] == [r["name"] for r in rows[1]] and small["notes"] == large["notes"]
    (outside,) = [r for r in rows[1] if r["name"] == "(outside of modules)"]
    kernels = sum((3 + rank) * (5 + rank) for rank in range(3))  # us
    assert outside["device_ns"] == 18_000 and math.isclose(
        outside["pct"], 100 * 18 / kernels
    )  # one kernel of each: 5 + 6 + 7 us
    linear = [r for r in rows[1] if r["name"].startswith("Linear")]
    assert [(r["rank"], r["calls"]) for r in linear] == ([(0, 2), (1, 3), (2, 4)] if by == "tree" else [(None, 9)])
