"""One folder, one answer: ranks that are held at once and the same ranks read one after the other, down to order and
notes."""

import functools
import json
import math

import pytest
import tachograph as tg
import traces
from by_rank import open_by_rank

KINDS = {  # of ranks: what each has
    "even": [dict(steps=2), dict(steps=2), dict(steps=2)],
    "no steps": [dict(steps=0), dict(steps=0, gpu=False), dict(steps=0)],
    "each lacks something": [dict(gpu=False, steps=0), dict(steps=3), dict(steps=0), dict(gpu=False, steps=2)],
    "another first": [dict(steps=5), dict(gpu=False, steps=2), dict(steps=3), dict(gpu=False, steps=0)],
    "two say they are one": [dict(steps=2), dict(steps=2), dict(steps=2)],
    "one is damaged": [dict(steps=3), dict(steps=3), dict(steps=3)],
}


def shapes(rank, has):
    for event in (e for e in rank.events if e.cat == "cpu_op"):
        event.args.pop("Input Dims", None)
        if has and event.name == "aten::mm":
            event.args.update({"Input Dims": [[8, 4], [4, 8]], "Input type": ["float", "float"]})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(kind): a folder of these ranks and a file that is no trace."""

    @functools.cache
    def write(kind):
        ranks, folder = [], tmp_path_factory.mktemp("ranks")
        for number, has in enumerate(KINDS[kind]):
            (rank,) = traces.build(70 + 10 * number + len(kind), size=90, grain=(7, 1000)[number % 2], **has)
            rank.number, rank.world = (
                (0 if number == 1 and kind == "two say they are one" else number),
                len(KINDS[kind]),
            )
            if rank.devices and number != 2:
                rank.devices[0] = {**rank.devices[0], "name": "NVIDIA H100"}
            shapes(rank, has=number == 1)
            ranks.append(rank)
        traces.write(ranks, folder, 1, plain=True)
        if kind == "one is damaged":
            text = (file := sorted(folder.iterdir())[1]).read_bytes()
            file.write_bytes(text[: 2 * len(text) // 3])
        (folder / "zz.json").write_bytes(b" " * 10)
        return folder

    return write


def said(trace, question, **arguments):
    try:
        table = trace.ask(question, **arguments)
    except tg.TachographError as e:
        return {"error": (e.code, str(e))}
    return {"columns": table.columns, "rows": table.to_dicts(), "notes": table.notes, "losses": table.losses}


def is_same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-11, abs_tol=1e-9)
    return a == b


def compare(at_once, one_by_one):
    assert at_once.get("error") == one_by_one.get("error")
    if "error" in at_once:
        return
    for part in ("columns", "notes", "losses"):
        assert at_once[part] == one_by_one[part]
    assert len(at_once["rows"]) == len(one_by_one["rows"])
    for a, b in zip(at_once["rows"], one_by_one["rows"]):
        assert [(name, a[name], b[name]) for name in a if not is_same(a[name], b[name])] == [], (a, b)


LACKS, EVEN = "each lacks something", "even"


@pytest.mark.parametrize(
    "rule, kind, question, arguments",
    [
        ("the rows of a rank follow those of the one before", LACKS, "events", {"by": "mark"}),
        ("rows with the same key become one", EVEN, "ops", {"by": "name+step"}),
        ("what is worked out from sums is worked out at the end", LACKS, "roofline", {}),
        ("only the end knows which rows stay", LACKS, "modules", {"by": "tree"}),
        ("what shows between the ranks comes last", EVEN, "findings", {}),
        ("only all ranks together can say", EVEN, "clocks", {}),
        ("the first page is asked while ranks are read", LACKS, "overview", {}),
        ("a rank is numbered as in the job", "two say they are one", "launches", {"by": "event", "rank": "0"}),
        ("rows count from the first start of all", "another first", "rows", {"where": "ts_us > 1", "limit": "9"}),
        ("a step is each rank's own", "another first", "stacks", {"step": "1", "sort": "-self_cpu_ns"}),
        ("steps of ranks that have none", "no steps", "steps", {"by": "whole"}),
        ("a damaged rank has rows and losses", "one is damaged", "losses", {}),
    ],
)
def test_whichever_way_the_ranks_are_read(written, rule, kind, question, arguments):
    """A case guards a rule of the one road; what each question makes of many ranks is guarded by tests/golden."""
    folder = written(kind)
    compare(*(said(open_folder(folder), question, **arguments) for open_folder in (tg.open, open_by_rank)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_rank_lacks_is_said_whether_or_not_others_have_it(written, kind):
    for folder in (open_folder(written(kind)) for open_folder in (tg.open, open_by_rank)):
        ranks = [r["rank"] for r in said(folder, "overview")["rows"] if r["quantity"] == "events"]
        answers = [said(folder, "kernels", rank=str(r)) for r in ranks]
        lacking = [a for a in answers if "error" in a]
        notes = said(folder, "kernels")["notes"]
        assert [n for n in notes if "left out; of the first: the trace holds no device work" in n] == [
            n for n in notes if n.startswith(f"{len(lacking)} of {len(ranks)} rank") and lacking
        ]
        assert all(
            a["error"][0] == "NO_DATA" and a["error"][1].startswith(f"rank {r} holds no device work")
            for r, a in zip(ranks, answers)
            if "error" in a
        )


def test_steps_are_found_rank_by_rank(tmp_path):
    """Rank 0 has ProfilerStep annotations, rank 1 a loop of its own annotation: one is no reason to find none in the
    other."""

    def events(name, count):
        return [
            {"ph": "X", "cat": "user_annotation", "name": name(i), "pid": 1, "tid": 1, "ts": 1000 * i, "dur": 900}
            for i in range(count)
        ] + [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000 * i + 10, "dur": 500}
            for i in range(count)
        ]

    for rank, (name, count) in enumerate([(lambda i: f"ProfilerStep#{i + 3}", 4), (lambda i: "turn", 6)]):
        document = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events(name, count)}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
    for open_folder in (tg.open, open_by_rank):
        table = open_folder(tmp_path).ask("steps")
        assert [(r["rank"], int(r["step"])) for r in table.to_dicts()] == [(0, n) for n in (3, 4, 5, 6)] + [
            (1, n) for n in range(6)
        ]
        assert "rank 1: the trace has no ProfilerStep: the annotation turn is taken as the step" in table.notes
        rows = open_folder(tmp_path).ask("overview").to_dicts()
        kinds = {r["rank"]: r["text"] for r in rows if r["quantity"] == "step_kind"}
        assert kinds == {0: "ProfilerStep", 1: "annotation"}
