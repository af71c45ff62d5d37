"""One folder, one answer: every question to ranks that are held at once and to the same ranks read one after the other,
down to order and notes."""

import ctypes
import itertools
import json
import math
import os
import pathlib

import pytest
import tachograph as tg
import traces

VALUES = {  # of the argument by
    "steps": "step summary annotation whole",
    "events": "slice mark",
    "gaps": "gap cause",
    "breakdown": "rank device",
    "overlap": "rank step",
    "kernel_types": "rank all",
    "idle": "stream cause interval",
    "queue": "summary series full",
    "copy_bandwidth": "summary series op",
    "device_metrics": "device time",
    "totals": "rank track",
    "mfu": "step rank",
    "memory": "device time peak op category",
    "memory_blocks": "block category op module layer line",
    "memory_timeline": "time peak final",
    "fragmentation": "device time",
    "segments": "segment block pool",
    "op_kernels": "sequence op call",
    "sequences": "pattern event",
    "kernel_annotations": "kernel annotation",
    "forward_backward": "op call",
    "critical_path": "op bound kind event edge rank",
    "cupti": "range counter op total",
    "launches": "rank call event",
    "launch_stats": "rank kernel call event",
    "ops": "name shape overload stack module step name+step",
    "kernels": "name op config stream",
    "stacks": "line function file module stack",
    "roofline": "name shape module step kind kernel",
    "rows": "event rank step name",
    "key_averages": "name shape+overload event step stack module",
    "modules": "tree class",
    "ranks": "rank step",
    "collectives": "kind group collective part rank step",
    "spread": "kernel op",
}
QUESTIONS = list(tg.questions())
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


LIBRARY = ctypes.CDLL(str(pathlib.Path(tg.__file__).parent / "lib" / "libtachograph.so"))


def open_folder(folder, large):
    """large: read rank by rank, as folders of more than 16 MB are."""
    LIBRARY.tg__ranks_large(ctypes.c_int64(0 if large else 16 << 20))
    try:
        return tg.open(folder)
    finally:
        LIBRARY.tg__ranks_large(ctypes.c_int64(16 << 20))


@pytest.fixture(scope="module", params=KINDS)
def written(request, tmp_path_factory):
    ranks = []
    for number, kind in enumerate(KINDS[request.param]):
        (rank,) = traces.build(70 + 10 * number + len(request.param), size=90, grain=(7, 1000)[number % 2], **kind)
        rank.number, rank.world = (
            (0 if number == 1 and request.param == "two say they are one" else number),
            len(KINDS[request.param]),
        )
        rank.devices[:1] = (
            [{**rank.devices[0], "name": "NVIDIA H100"}] if rank.devices and number != 2 else rank.devices[:1]
        )
        shapes(rank, has=number == 1)
        ranks.append(rank)
    small, large = (tmp_path_factory.mktemp(name) for name in ("small", "large"))
    traces.write(ranks, small, 1, plain=True)
    if request.param == "one is damaged":
        text = (file := sorted(small.iterdir())[1]).read_bytes()
        file.write_bytes(text[: 2 * len(text) // 3])
    for path in small.iterdir():
        os.link(path, large / path.name)
    for folder in (small, large):
        (folder / "zz.json").write_bytes(b" " * 10)
    return small, large


@pytest.fixture
def folders(written):
    """Opened anew for each test: a question that needs all ranks at once leaves them in memory for those that
    follow."""
    return [(open_folder(folder, large), str(folder)) for folder, large in zip(written, (False, True))]


def said(folder, question, **arguments):
    trace, path = folder
    try:
        table = trace.ask(question, **arguments)
    except tg.TachographError as e:
        return {"error": (e.code, str(e).replace(path, ""))}
    rows = json.loads(json.dumps(table.to_dicts()).replace(path, ""))
    if question == "overview":
        rows = [row for row in rows if row["quantity"] != "path" or row.pop("text", None)]
    return {
        "columns": table.columns,
        "rows": rows,
        "notes": [note.replace(path, "") for note in table.notes],
        "losses": table.losses,
    }


def is_same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-11, abs_tol=1e-9)
    return a == b


def compare(small, large):
    assert small.get("error") == large.get("error")
    if "error" in small:
        return
    assert [small[k] for k in ("columns", "notes", "losses")] == [large[k] for k in ("columns", "notes", "losses")]
    assert len(small["rows"]) == len(large["rows"])
    for a, b in zip(small["rows"], large["rows"]):
        assert [(name, a[name], b[name]) for name in a if not is_same(a[name], b[name])] == [], (a, b)


@pytest.mark.parametrize("question", QUESTIONS)
def test_whichever_way_the_ranks_are_read(folders, question):
    takes = {a.name for a in tg.questions()[question].arguments}
    more = [
        {},
        {"rank": "1"},
        {"step": "1"},
        {"step": "99"},
        {"limit": "3"},
        {"sort": "-" + tg.questions()[question].columns[-1].name},
    ]
    for by, arguments in itertools.product(VALUES.get(question, "").split() or [None], more):
        if set(arguments) <= takes:
            arguments = {**arguments, **({"by": by} if by else {})}
            compare(*(said(folder, question, **arguments) for folder in folders))


def test_what_a_rank_lacks_is_said_whether_or_not_others_have_it(folders):
    for folder in folders:
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

    for folder in ("small", "large"):
        (tmp_path / folder).mkdir()
        for rank, (name, count) in enumerate([(lambda i: f"ProfilerStep#{i + 3}", 4), (lambda i: "turn", 6)]):
            (tmp_path / folder / f"rank{rank}.json").write_text(
                json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events(name, count)})
            )
        (tmp_path / folder / "zz.json").write_bytes(b" " * 10)
        table = open_folder(tmp_path / folder, folder == "large").ask("steps")
        assert [(r["rank"], int(r["step"])) for r in table.to_dicts()] == [(0, n) for n in (3, 4, 5, 6)] + [
            (1, n) for n in range(6)
        ]
        assert "rank 1: the trace has no ProfilerStep: the annotation turn is taken as the step" in table.notes
        kinds = {
            r["rank"]: r["text"]
            for r in open_folder(tmp_path / folder, folder == "large").ask("overview").to_dicts()
            if r["quantity"] == "step_kind"
        }
        assert kinds == {0: "ProfilerStep", 1: "annotation"}
