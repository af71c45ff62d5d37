"""Folders as they lie about: ranks that are missing, twice, cut or empty, and files that are no ranks; each gets an
answer and a note."""

import gzip
import json

import pytest


def rank_events(rank, steps=4, late_us=0, swap=False, size=2):
    """Each step begins on the same microsecond and has two collectives, which end together on all ranks."""
    events = []
    for step in range(steps):
        t = 1000 + 1000 * step
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": t,
                "dur": 900,
            }
        )
        kinds = ["allreduce", "allgather"]
        for k, kind in enumerate(reversed(kinds) if swap and step == 2 else kinds):
            number, begin, end = 2 * step + k, t + 400 + 150 * k + late_us, t + 550 + 150 * k
            args = {
                "Collective name": kind,
                "In msg nelems": 1024,
                "Out msg nelems": 1024,
                "Group size": size,
                "dtype": "Float",
                "Process Group Name": "0",
                "Seq": number,
            }
            kernel = {
                "allreduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                "allgather": "ncclDevKernel_AllGather_RING_LL",
            }[kind]
            events.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": "record_param_comms",
                    "pid": 1,
                    "tid": 1,
                    "ts": begin - 30,
                    "dur": 10,
                    "args": args,
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": begin - 28,
                    "dur": 5,
                    "args": {"correlation": number},
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": kernel,
                    "pid": 0,
                    "tid": 7,
                    "ts": begin,
                    "dur": end - begin,
                    "args": {"device": 0, "stream": 7, "correlation": number},
                }
            )
    return events


def write(path, rank, world=2, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
                "traceEvents": rank_events(rank, **how),
            }
        )
    )


@pytest.fixture
def folder(tmp_path):
    for rank in range(2):
        write(tmp_path / "run" / f"rank{rank}.json", rank)
    return tmp_path / "run"


def notes(tachograph, folder, question="ranks"):
    run = tachograph("ask", folder, question, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["notes"]


def test_a_healthy_folder_has_nothing_to_say_but_its_clocks(tachograph, folder):
    assert notes(tachograph, folder) == [
        "clocks are aligned on the ends of collectives: by up to 0 ns, half of the ends within 0 ns (the question clocks says more)"
    ]


def test_an_empty_file_is_named_wherever_health_is_asked(tachograph, folder):
    (folder / "rank2.json").write_text("")
    check = tachograph("check", folder)
    assert (
        check.returncode == 1
        and f"not read: {folder}/rank2.json: the file is empty" in check.stdout
        and "everything" not in check.stdout
    )
    assert "1 file not read (rank2.json)" in tachograph("report", folder).stdout
    losses = tachograph("ask", folder, "losses").stdout
    assert "rank2.json" in losses and "the file is empty" in losses and "rank0.json" not in losses


def test_a_folder_with_nothing_but_an_empty_file(tachograph, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0.json").write_text("")
    run = tachograph("report", tmp_path / "run")
    assert (
        run.returncode == 4
        and "the only file that may be a trace cannot be read" in run.stderr
        and "the file is empty" in run.stderr
    )


@pytest.mark.parametrize("command", ["report", "ask"])
def test_folders_of_folders_are_pointed_at(tachograph, tmp_path, command):
    for host in "ab":
        write(tmp_path / "runs" / host / "rank0.json", 0)
    run = tachograph(command, tmp_path / "runs", *(["ranks"] if command == "ask" else []))
    assert (
        run.returncode == 4
        and f"the folders in it hold 2: name one of the folders, or all of them as '{tmp_path}/runs/*/*'" in run.stderr
    )
    assert tachograph("ask", f"{tmp_path}/runs/*/*", "ranks").returncode == 0


@pytest.mark.parametrize("names", [("rank_0", "rank_1"), ("rank0", "Rank-1")])
def test_a_folder_for_each_rank_is_one_run(tachograph, folder, tmp_path, names):
    """The same answers as from one folder, also rank by rank, and with other things lying about."""
    for rank, name in enumerate(names):
        write(tmp_path / "apart" / name / "trace.json", rank, late_us=7 * rank)
        write(tmp_path / "run" / f"rank{rank}.json", rank, late_us=7 * rank)
    (tmp_path / "apart" / "config.yaml").write_text("lr: 1")
    (tmp_path / "apart" / "logs").mkdir()
    for question in ("ranks", "collectives", "kernels"):
        together, apart = (
            json.loads(tachograph("ask", place, question, "--json").stdout) for place in (folder, tmp_path / "apart")
        )
        assert together["rows"] == apart["rows"] and len(apart["rows"]) > 0
    assert "2 ranks of 2" in tachograph("report", tmp_path / "apart").stdout


@pytest.mark.parametrize("command", [["report"], ["check"], ["ask", "steps"]])
def test_a_recording_that_was_killed_as_a_whole(tachograph, tmp_path, command):
    """`tachograph run` packs what lies in raw/ when the program has ended; if both were killed it stays there."""
    (tmp_path / "run" / "raw").mkdir(parents=True)
    write(tmp_path / "run" / "raw" / "start-7.json", 0, world=1)
    (tmp_path / "run" / "raw" / "log-7").write_text("process 7 -1 x.py\n")
    done = tachograph(command[0], "run", *command[1:])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["rank_", "rank_1a", "rank", "ranks1", "crank_1"])
def test_other_folders_are_no_ranks(tachograph, tmp_path, name):
    for place in ("rank_0", name):
        write(tmp_path / "runs" / place / "trace.json", 0)
    run = tachograph("ask", tmp_path / "runs", "ranks")
    assert run.returncode == 4 and "the folders in it hold 2" in run.stderr


def test_a_folder_without_anything_of_the_kind(tachograph, tmp_path):
    (tmp_path / "train.py").write_text("print()")
    run = tachograph("report", tmp_path)
    assert run.returncode == 4 and "holds no traces: no file in it ends in .json" in run.stderr


def test_what_lies_beside_the_ranks_does_no_harm(tachograph, folder):
    write(folder / "nested" / "rank0.json", 0)
    (folder / "notes.txt").write_text("x")
    (folder / "loop").symlink_to("..")
    (folder / "gone.json").symlink_to("nowhere.json")
    assert tachograph("summarize", folder / "rank0.json", "-o", folder / "rank0.tsum").returncode == 0
    rows = json.loads(tachograph("ask", folder, "ranks", "--json").stdout)["rows"]
    assert [row[0] for row in rows] == [0, 1]


def test_what_we_write_beside_a_trace_is_not_counted(tachograph, tachograph_by_rank, folder):
    """conditions, baseline, summary, diff, and the address of a flight recorder; a trace of such a name is read, and
    what is no trace and not ours is counted as before."""
    for name in ("conditions.json", "baseline.json", "summary.json", "diff.json", "http-node-12.json"):
        (folder / name).write_text('{"question": "report", "rows": [], "note": "a \\"traceEvents\\" is none"}')
    for run in (tachograph, tachograph_by_rank):
        done = run("check", folder)
        assert done.returncode == 0 and "not read" not in done.stdout, done.stdout
        assert "not read" not in run("report", folder).stdout
    write(folder / "summary.json", 2, world=3)
    (folder / "config.json").write_text("{}")
    done = tachograph("check", folder)
    assert done.returncode == 1 and "summary.json  " in done.stdout
    assert done.stdout.count("note: not read:") == 1 and "config.json" in done.stdout
    done = tachograph("report", folder / "conditions.json")  # named itself, it says what is wrong with it
    assert done.returncode == 4 and "not a trace" in done.stderr


def test_a_folder_with_nothing_but_our_own_files_says_so(tachograph, tmp_path):
    (tmp_path / "conditions.json").write_text("{}")
    done = tachograph("report", tmp_path)
    assert done.returncode == 4 and "conditions.json" in done.stderr


def test_ranks_of_two_runs_in_one_folder(tachograph, folder):
    write(folder / "other.json", 1, late_us=40)
    said = notes(tachograph, folder)
    assert "2 files say that they are rank 1, and each is counted as a rank of its own: other.json, rank1.json" in said
    assert (
        "collectives in which more files take part than their group has ranks: 8; files of several runs, or of one rank twice, lie together"
        in said
    )


def test_files_of_one_rank_are_named_everywhere(tachograph, folder, tmp_path):
    """Two files that both say rank 0 of 2: taken as two ranks, and every answer says so."""
    write(folder / "rank1.json", 0)
    said = "2 files say that they are rank 0, and each is counted as a rank of its own: rank0.json, rank1.json"
    for question in ("overview", "kernels", "ops", "annotations", "ranks", "findings", "modules", "rows"):
        run = tachograph("ask", folder, question, "--json")
        assert run.returncode == 3 or json.loads(run.stdout)["notes"].count(said) == 1, question
    assert (
        "2 files say that they are rank 0, and this is only the first of them: rank0.json, rank1.json"
        in tachograph("ask", folder, "kernels", "--rank", "0").stdout
    )
    check = tachograph("check", folder)
    assert check.returncode == 0 and said in check.stdout
    assert "several files say that they are rank 0" in tachograph("report", folder).stdout
    write(tmp_path / "one.json", 1)
    assert f"A: {said}" in tachograph("diff", folder, tmp_path / "one.json").stdout
    assert (
        "B: 2 files say that they are rank 0, and this is only the first"
        in tachograph("diff", tmp_path / "one.json", folder, "--rank-b", "0", "--question", "kernels").stdout
    )


def test_many_ranks_twice(tachograph, folder):
    for name, rank in (
        ("copy0.json", 0),
        ("copy1.json", 1),
        ("copy1b.json", 1),
        ("copy1c.json", 1),
        ("copy1d.json", 1),
    ):
        write(folder / name, rank)
    assert (
        "2 files say that they are rank 0 (so it is with 1 more rank), and each is counted as a rank of its own: copy0.json, rank0.json"
        in notes(tachograph, folder)
    )
    assert (
        "5 files say that they are rank 1, and this is only the first of them: copy1.json, copy1b.json, copy1c.json, copy1d.json, \u2026"
        in tachograph("ask", folder, "kernels", "--rank", "1").stdout
    )


@pytest.mark.parametrize("behind, lost", [(b"", 0), (b"\0" * 512, 0), (b"rubbish", 1), ("again", 0)])
def test_what_is_behind_a_packed_file(tachograph, folder, behind, lost):
    """Padding is no loss, something else is one; a further member goes on with the text."""
    text = (folder / "rank0.json").read_bytes()
    packed = folder / "rank0.json.gz"
    packed.write_bytes(
        gzip.compress(text) + behind if behind != "again" else gzip.compress(text[:999]) + gzip.compress(text[999:])
    )
    (folder / "rank0.json").unlink()
    check = tachograph("check", packed)
    losses = json.loads(tachograph("ask", packed, "losses", "--json").stdout)["rows"]
    assert check.returncode == lost and [row[2] for row in losses] == ["cut_packed"] * lost
    assert ("everything was read as written" in check.stdout) == (not lost) and (
        "the input is cut or damaged in 1 place" in check.stdout
    ) == bool(lost)


def test_collectives_called_in_another_order(tachograph, folder):
    write(folder / "rank1.json", 1, swap=True)
    assert (
        "the ranks do not call the same collectives in the same order: numbers of a group that stand for one kind on some ranks and for another elsewhere: 2"
        in notes(tachograph, folder, "collectives")
    )


def test_groups_that_the_ranks_see_differently(tachograph, folder):
    write(folder / "rank1.json", 1, size=3)
    assert "collectives with ranks that state groups of different size: 8" in notes(tachograph, folder)


def test_clocks_hours_apart(tachograph, folder):
    text = json.loads((folder / "rank1.json").read_text())
    (folder / "rank1.json").write_text(json.dumps({**text, "baseTimeNanoseconds": 7_200_000_000_000}))
    assert any("by up to 7200.0 s, half of the ends within 0 ns" in note for note in notes(tachograph, folder))


def test_a_file_for_each_rank(tachograph, folder, tmp_path):
    """-o FOLDER/: what each rank's own file would become, called by its rank; and the answer lists them."""
    (folder / "rank9.json").write_text("")  # no trace: named, and the others are written all the same
    out = tmp_path / "packed"
    run = tachograph("convert", folder, "-o", f"{out}/", "--json")
    assert run.returncode == 1 and "rank9.json" in run.stdout and "the file is empty" in run.stdout
    assert [row[:2] for row in json.loads(run.stdout)["rows"]] == [
        [rank, f"{out}/rank{rank:04}.tacho"] for rank in range(2)
    ]
    assert sorted(f.name for f in out.iterdir()) == ["rank0000.tacho", "rank0001.tacho"]
    for question in ("collectives", "steps"):
        rows = [json.loads(tachograph("ask", place, question, "--json").stdout)["rows"] for place in (folder, out)]
        assert rows[0] == rows[1] != []
    (folder / "rank9.json").unlink()
    for name, suffix in (("perfetto", ".pftrace"), ("chrome", ".json"), ("csv", ".csv")):
        target = tmp_path / name
        target.mkdir()
        run = tachograph("export", folder, "--to", name, "-o", target)
        assert run.returncode == 0, run.stderr
        for rank in range(2):
            assert (
                tachograph("export", folder / f"rank{rank}.json", "--to", name, "-o", tmp_path / "one").returncode == 0
            )
            assert (target / f"rank000{rank}{suffix}").read_bytes() == (tmp_path / "one").read_bytes()


def test_a_file_for_each_rank_of_one_file(tachograph, folder, tmp_path):
    both = tmp_path / "both.tacho"
    assert tachograph("convert", folder, "-o", both).returncode == 0
    run = tachograph("export", both, "--to", "chrome", "-o", f"{tmp_path / 'all'}/")
    assert run.returncode == 0 and "all/rank0001.json" in run.stdout, run.stderr
    assert [p.name for p in sorted((tmp_path / "all").iterdir())] == ["rank0000.json", "rank0001.json"]
    for rank in (0, 1):
        written = json.loads((tmp_path / "all" / f"rank000{rank}.json").read_text())
        assert written["distributedInfo"]["rank"] == rank
    assert tachograph("export", both, "--to", "folded", "--rank", "1", "-o", f"{tmp_path / 'one'}/").returncode == 0
    assert [p.name for p in (tmp_path / "one").iterdir()] == ["rank0001.folded"]
    refused = tachograph("export", both, "--to", "folded", "--rank", "7", "-o", f"{tmp_path / 'none'}/")
    assert refused.returncode == 3 and "has no such rank" in refused.stderr


@pytest.mark.parametrize("form", ["folded", "speedscope"])
def test_stacks_with_no_time_in_them_are_refused(tachograph, tmp_path, form):
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]
    (tmp_path / "cpu.json").write_text(json.dumps({"traceEvents": events}))
    refused = tachograph("export", "cpu.json", "--to", form, "--metric", "device", "-o", "out")
    assert refused.returncode == 3 and "no device work was launched" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_for_each_of_those_that_do_not_say_their_rank(tachograph, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / f"{name}.json").write_text(json.dumps({"traceEvents": rank_events(0)}))
    write(tmp_path / "run" / "x.json", 3)
    write(tmp_path / "run" / "y.json", 3)
    assert tachograph("convert", tmp_path / "run", "-o", f"{tmp_path}/out/").returncode == 0
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == [
        "a.tacho",
        "b.tacho",
        "rank0003-2.tacho",
        "rank0003.tacho",
    ]
    assert tachograph("convert", tmp_path / "run", "-o", "/dev/null/x/").returncode != 0


def test_a_diff_of_one_rank_of_a_large_folder(tachograph, tachograph_by_rank, tmp_path):
    """As if its file were given."""
    for name, late in (("a", 0), ("b", 60)):
        for rank in range(2):
            write(tmp_path / name / f"rank{rank}.json", rank, steps=12, late_us=late * rank)
    alone = json.loads(
        tachograph("diff", tmp_path / "a" / "rank1.json", tmp_path / "b" / "rank1.json", "--json").stdout
    )
    run = tachograph_by_rank("diff", tmp_path / "a", tmp_path / "b", "--rank", "1", "--json")
    assert run.returncode == 0 and json.loads(run.stdout)["rows"] == alone["rows"] != []


def test_the_share_of_links(tachograph, tachograph_by_rank, tmp_path):
    """A rank with four kernels: two inside an operator, one launched outside of any, one without its launch. Beside it
    one with its only kernel linked: 4 of 5, and 3 of these 4."""

    def x(cat, name, tid, ts, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": 10, "args": args}

    def launch(ts, correlation):
        return [
            x("cuda_runtime", "cudaLaunchKernel", 1, ts, correlation=correlation),
            x("kernel", "gemm", 7, ts + 100, correlation=correlation, device=0, stream=7),
        ]

    op = {**x("cpu_op", "aten::mm", 1, 0), "dur": 50}
    lone = x("kernel", "gemm", 7, 900, correlation=99, device=0, stream=7)
    for rank, events in enumerate(([op, *launch(10, 1), *launch(30, 2), *launch(60, 3), lone], [op, *launch(10, 1)])):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / f"rank{rank}.json").write_text(
            json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events})
        )
    for program in (tachograph, tachograph_by_rank):
        notes = json.loads(program("check", tmp_path / "run", "--json").stdout)["notes"]
        assert "4 of 5 device events are linked to the call that launched them (80.0 %)" in notes
        assert "3 of 4 linked device events are linked to an operator (75.0 %)" in notes
    report = tachograph("report", tmp_path / "run").stdout
    assert "4 of 5 device events linked" in report
    assert "links     80.0 % of device events to their launch, 75.0 % of them to an operator\n" in report
    alone = tachograph("report", tmp_path / "run" / "rank1.json").stdout
    assert "1 of 1 device event linked" in alone and "links " not in alone
