"""A folder of ranks too large to be held at once: read rank by rank, with the answers of its files."""

import json

import pytest
import tachograph as tg
from by_rank import open_by_rank

RANKS = 4
STEPS = 10


def op_count(rank):
    return 3000 + 500 * rank


def write_rank(path, rank):
    """Rank r has 1 + r threads, ten steps of 100 + r us, and op_count(r) operators of 2 us."""
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{s}",
            "pid": 1,
            "tid": 1,
            "ts": 1000 * s,
            "dur": 100 + rank,
        }
        for s in range(STEPS)
    ]
    for i in range(op_count(rank)):
        tid = 1 + i % (rank + 1)
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"op{i % 3}",
                "pid": 1,
                "tid": tid,
                "ts": 20_000 + 10 * i,
                "dur": 2,
                "args": {"External id": i + 1},
            }
        )
    events.append({"ph": "i", "cat": "mark", "name": f"of rank {rank}", "pid": 1, "tid": 1, "ts": 5, "s": "t"})
    path.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "distributedInfo": {"rank": rank, "world_size": RANKS, "backend": "gloo"},
                "baseTimeNanoseconds": 1_000_000_000 + rank * 500,
                "traceEvents": events,
            }
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("run")
    for rank in range(RANKS):
        write_rank(made / f"worker{RANKS - rank}.json", rank)  # the files' order is not that of the ranks
    (made / "notes.json").write_text("{}")  # no trace
    return made


@pytest.fixture(scope="module")
def run(folder):
    return open_by_rank(folder)


def alone(folder, rank):
    return tg.open(folder / f"worker{RANKS - rank}.json")


def slices(rank):
    return STEPS + op_count(rank)


BEFORE = {
    rank: sum(slices(r) for r in range(rank + 1, RANKS)) for rank in range(RANKS)
}  # files are read from the highest rank to the lowest
TRACKS_BEFORE = {rank: sum(1 + r for r in range(rank + 1, RANKS)) for rank in range(RANKS)}


def test_nothing_but_ranks_and_summaries_is_kept(run):
    assert sorted(r["rank"] for r in run.ask("ranks")) == [0, 1, 2, 3]
    assert [r["rank"] for r in run.ask("tracks")] == [3] * 4 + [2] * 3 + [1] * 2 + [0]
    assert [r["track"] for r in run.ask("tracks")] == list(range(10))


@pytest.mark.parametrize("rank", range(RANKS))
def test_one_rank_is_numbered_as_in_the_whole(run, folder, rank):
    rows, own = run.ask("events", rank=rank).to_dicts(), alone(folder, rank).ask("events").to_dicts()
    assert len(rows) == slices(rank)
    assert [r["id"] for r in rows] == list(range(BEFORE[rank], BEFORE[rank] + slices(rank)))
    assert {r["track"] for r in rows} == set(range(TRACKS_BEFORE[rank], TRACKS_BEFORE[rank] + rank + 1))
    for row, single in zip(rows, own):
        single.update(id=single["id"] + BEFORE[rank], track=single["track"] + TRACKS_BEFORE[rank])
        assert row == single
    (mark,) = run.ask("events", rank=rank, by="mark", where="phase = 'i'")
    assert (mark["name"], mark["id"]) == (f"of rank {rank}", RANKS - 1 - rank)


def test_rows_of_all_ranks_are_chosen_sorted_and_cut_as_ever(run):
    assert len(run.ask("events")) == sum(map(slices, range(RANKS)))
    rows = run.ask(
        "events", where="name ~ 'ProfilerStep' and dur_ns > 101000", sort="dur_ns desc, name", limit=STEPS + 1
    ).to_dicts()
    steps = [(3, f"ProfilerStep#{s}", 103_000) for s in range(STEPS)]
    assert [(r["rank"], r["name"], r["dur_ns"]) for r in rows] == steps + [(2, "ProfilerStep#0", 102_000)]
    means = {r["rank"]: r["total_ns"] for r in run.ask("steps", by="summary", where="step = 'mean'")}
    assert means == {rank: (100 + rank) * 1000 for rank in range(RANKS)}


def test_a_question_of_one_rank_is_that_of_its_file(run, folder):
    for rank in (2, 0, 1, 2):
        assert run.ask("ops", rank=rank).to_dicts() == alone(folder, rank).ask("ops").to_dicts()


def test_what_sums_over_the_ranks_sees_them_all(folder):
    run = open_by_rank(folder)
    assert {r["name"]: r["calls"] for r in run.ask("ops")} == {
        f"op{k}": sum(len(range(k, op_count(r), 3)) for r in range(RANKS)) for k in range(3)
    }
    assert run.sql("select count(*) as n from slices").to_dicts() == [{"n": sum(map(slices, range(RANKS)))}]
    assert len(run.ask("events", rank=1)) == slices(1)  # from the whole that is there now
    (track,) = {r["track"] for r in open_by_rank(folder).ask("events", track=9)}
    assert track == 9


def test_what_cannot_be_asked_is_an_error(run):
    with pytest.raises(tg.TachographError, match="rank 9 is not in the trace, which holds 4 ranks from 0 to 3"):
        run.ask("ops", rank=9)
    with pytest.raises(tg.TachographError, match="takes no argument 'tank'"):
        run.ask("ops", tank=1)
    with pytest.raises(tg.TachographError, match="is not a number of rows"):
        run.ask("events", rank=1, limit="many")
    with pytest.raises(tg.TachographError) as caught:
        run.ask("launches")
    assert caught.value.code == "NO_DATA"


def test_a_file_with_other_ranks_than_at_first_is_refused(tmp_path):
    """Its rows would be taken for those of the ranks that were there."""
    for rank in range(2):
        write_rank(tmp_path / f"rank{rank}.json", rank)
    run = open_by_rank(tmp_path)
    assert {row["rank"] for row in run.ask("events", limit=5)} == {0}
    both = tmp_path / "both.tacho"
    tg.open(tmp_path).save(both)
    both.replace(tmp_path / "rank1.json")
    with pytest.raises(tg.TachographError, match="a file in this folder was replaced: open the folder again"):
        run.ask("events", limit=5)
    with pytest.raises(tg.TachographError, match="a file in this folder was replaced"):
        run.ask("events", rank=1)


def test_the_report_is_about_the_slowest_rank(run):
    text = run.report()
    assert (
        "and 3 more" in text
        and "4 ranks" in text
        and "rank 3" in text
        and "invariants hold" in text
        and "invariants broken" not in text
    )


def test_progress_and_stopping(folder):
    seen = []
    open_by_rank(folder, progress=lambda done, total: seen.append((done, total)))
    total = sum(f.stat().st_size for f in folder.iterdir())
    assert seen[-1] == (total, total) and [d for d, _ in seen] == sorted(d for d, _ in seen)
    with pytest.raises(tg.TachographError) as caught:
        open_by_rank(folder, progress=lambda done, total: False)
    assert caught.value.code == "CANCELLED"


def test_rows_count_from_the_first_start_of_all_ranks(folder):
    """Rank r begins its first step at 0 us of a clock that is r * 500 ns ahead: the first start of all is that of rank
    0."""
    run = open_by_rank(folder)
    for rank in range(RANKS):
        assert min(r["ts_us"] for r in run.ask("rows", rank=rank)) == rank * 0.5


def test_progress_goes_on_when_ranks_are_read_again(folder):
    seen = []
    run = open_by_rank(folder, progress=lambda done, total: seen.append((done, total)))
    total = seen[-1][1]
    seen.clear()
    run.ask("ops")  # adds up over the ranks: each is read again
    of_ranks = total - (folder / "notes.json").stat().st_size
    assert {t for _, t in seen} == {of_ranks} and [d for d, _ in seen] == sorted(d for d, _ in seen)
    seen.clear()
    run.ask("ops", rank=0)
    assert {t for _, t in seen} <= {(folder / f"worker{RANKS}.json").stat().st_size}


def test_what_progress_raises_comes_out_of_the_question(folder):
    raised = []

    def progress(done, total):
        if raised:
            raise KeyError("enough")

    run = open_by_rank(folder, progress=progress)
    raised.append(True)
    with pytest.raises(KeyError, match="enough"):
        run.ask("ops")
    raised.clear()
    assert len(run.ask("ops")) == 3


def test_a_line_shows_how_far_it_is():
    import io

    from tachograph._progress import Line

    now, stream = [0.0], io.StringIO()
    line = Line(stream, clock=lambda: now[0])
    for at, done in (
        (0.0, 0),
        (0.9, 400_000_000),
        (1.0, 500_000_000),
        (1.05, 600_000_000),
        (1.2, 750_000_000),
        (1.3, 1_000_000_000),
    ):
        now[0] = at
        line(done, 1_000_000_000)
    assert (
        stream.getvalue()
        == "\rreading 500 MB of 1 GB, 50 %\033[K\rreading 750 MB of 1 GB, 75 %\033[K\rreading 1 GB of 1 GB, 100 %\033[K\r\033[K"
    )
