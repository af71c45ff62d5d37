"""What every question must do when all times move, all times double, the events stand in another order, or the streams
have other numbers: exactly that and no more. Asked in each of the ways that have a golden, of the golden traces and of
random ones; a new question is in it by having a golden."""

import copy
import json
import pathlib
import random
import re
import sys
from decimal import Decimal

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import make_traces
import test_golden
import traces
from columns import QUESTIONS, is_instant, is_rate, is_running_number, is_time
from engine import Refused

SHIFT_US = 10**9  # a multiple of every bucket's width
PROSE = {"file", "evidence", "advice"}
RATE = "memory bandwidth (GB/s)"
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "Kernel", "Memcpy"}


def arguments(words):
    return {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}


ASKED = [(name, arguments(words)) for name, variants in test_golden.QUESTIONS.items() for words in variants]


# ---- documents ---------------------------------------------------------------------------------------------


def parse(text):
    return json.loads(text, parse_float=Decimal)


def spell(document):
    return re.sub(r'"@(-?[0-9.]+)@"', r"\1", json.dumps(document, default=lambda d: "@%s@" % format(d, "f")))


def events(document):
    return document["traceEvents"] if isinstance(document, dict) else document


def golden(name):
    return [
        parse(build()) for path, build in make_traces.TRACES.items() if path.split("/")[0].removesuffix(".json") == name
    ]


def made(seed, ranks):
    content = traces.build(seed, ranks=ranks, size=70, grain=1000, span=10**6)
    return [parse(traces.document(rank, traces.Speller(random.Random(0), plain=True))) for rank in content]


SOURCES = {
    name: (golden, name)
    for name in (
        "cpu_training",
        "gpu_training",
        "amd_training",
        "names_of_2021",
        "memory_events",
        "memory_training",
        "every_phase",
        "python_stacks",
        "two_ranks",
    )
}
SOURCES.update({"random %d" % seed: (made, seed, 1 + seed % 2) for seed in range(2)})


def shifted(document):
    for e in events(document):
        e["ts"] += SHIFT_US
    return document


def slowed(document):
    for e in events(document):
        for key in ("ts", "dur"):
            if key in e:
                e[key] *= 2
        if RATE in e.get("args", {}):
            e["args"][RATE] /= 2
    if isinstance(document, dict) and "baseTimeNanoseconds" in document:
        document["baseTimeNanoseconds"] *= 2
    return document


def permuted(document):
    """Of those that begin at once on one thread the order says which is the outer one, so it stays."""
    at = lambda e: (str(e["pid"]), str(e["tid"]) if "tid" in e else None, e.get("ts"))
    queues = {}
    for e in events(document):
        queues.setdefault(at(e), []).append(e)
    order = [at(e) for e in events(document)]
    random.Random(len(order)).shuffle(order)
    events(document)[:] = [queues[key].pop(0) for key in order]
    return document


def renumbered(text):
    return re.sub(r"\bstream (\d+)", lambda m: "stream %d" % (int(m[1]) + 1000), text)


def renamed(document):
    more = lambda n: str(int(n) + 1000) if isinstance(n, str) else n + 1000
    devices = {e["pid"] for e in events(document) if e.get("cat") in DEVICE}
    for e in events(document):
        if e["pid"] in devices and "tid" in e and e["name"] not in ("process_name", "process_labels"):
            e["tid"] = more(e["tid"])
            if "stream" in e.get("args", {}):
                e["args"]["stream"] = more(e["args"]["stream"])
            if e["ph"] == "M":
                e["args"]["name"] = renumbered(e["args"]["name"])
    return document


# ---- answers -----------------------------------------------------------------------------------------------


def write(documents, folder):
    folder.mkdir()
    for k, document in enumerate(documents):
        (folder / ("rank%d.json" % k)).write_text(spell(document))
    return folder / "rank0.json" if len(documents) == 1 else folder


def nothing(question, column):
    return False


def ask(engine, path, question, args, without=nothing):
    """Without what names the file, and what says the numbers again in words."""
    try:
        rows = engine.ask(path, question, **args)
    except Refused as refusal:
        return [{"refused": refusal.status}]
    rows = [row for row in rows if row.get("quantity") not in ("file", "json_bytes")]
    return [{k: v for k, v in row.items() if k not in PROSE and not without(question, k)} for row in rows]


def canonical(rows):
    """In an order of their own; sums of reals in another order differ in their last digits."""
    return sorted(
        repr(sorted((k, float("%.10g" % v) if isinstance(v, float) else v) for k, v in row.items())) for row in rows
    )


def pair(tmp_path, source, change):
    build, *which = SOURCES[source]
    documents = build(*which)
    return write(documents, tmp_path / "a"), write([change(copy.deepcopy(d)) for d in documents], tmp_path / "b")


def each(row, change):
    return {k: change(k, v) if v is not None else None for k, v in row.items()}


def fact(row, change):
    """A row of overview: its number, and the same in words."""
    return {
        **row,
        "value": None if row["value"] is None else change(row["value"]),
        "text": row["text"] and str(change(int(row["text"]))),
    }


# ---- what must follow --------------------------------------------------------------------------------------


def after_shift(question, row):
    if row.get("quantity") in ("first_ns", "last_ns"):
        return fact(row, lambda v: v + 1000 * SHIFT_US)
    return each(row, lambda k, v: v + 1000 * SHIFT_US if is_instant(question, k) else v)


def after_slowing(question, row):
    if question == "overview" and row["unit"] == "ns":
        return fact(row, lambda v: 2 * v)
    return each(row, lambda k, v: 2 * v if is_time(question, k) else v / 2 if is_rate(question, k) else v)


def after_renaming(question, row):
    if question == "tracks" and row["kind"] == "device":
        row = {**row, "tid": str(int(row["tid"]) + 1000)}
    return each(
        row, lambda k, v: v + 1000 if k == "stream" and v >= 0 else renumbered(v) if k in ("group", "name") else v
    )


# What follows otherwise, and why. HTA rounds times that have fractions, goes by the order of the file, and takes stream
# 0 for the host.
EXCEPT = {
    "order": lambda source, question, args: "rules" in args or "event" in args,  # event: a running number
    "streams": lambda source, question, args: (
        ("rules" in args and source not in ("gpu_training", "names_of_2021", "python_stacks"))
        or (source == "amd_training" and question in ("overview", "tracks"))
    ),  # the name of its process stands on stream 0
    "slow": lambda source, question, args: (
        ("rules" in args and source == "amd_training")
        or question in ("findings", "diagnosis", "document", "step_model", "what_if", "slack")
        or (question == "steps" and args == {"by": "summary"})
    ),
}  # limits in time; the head of the file, word for word; means in whole nanoseconds


def asked(change, source):
    return [(question, args) for question, args in ASKED if not EXCEPT[change](source, question, args)]


def compare(engine, paths, questions, after, without=nothing, ways=lambda question, args: (args, args)):
    """One file after the other: the engine holds one open."""
    left, right = (
        [ask(engine, path, q, tuple(ways(q, args))[k], without) for q, args in questions]
        for k, path in enumerate(paths)
    )
    for (question, args), before, now in zip(questions, left, right):
        assert canonical(after(question, row) for row in before) == canonical(now), (question, args)
    assert sum("refused" not in row for rows in left for row in rows) > 100


@pytest.mark.parametrize("source", SOURCES)
def test_shift(engine, tmp_path, source):
    compare(engine, pair(tmp_path, source, shifted), ASKED, after_shift)


@pytest.mark.parametrize("source", SOURCES)
def test_order(engine, tmp_path, source):
    compare(
        engine, pair(tmp_path, source, permuted), asked("order", source), lambda question, row: row, is_running_number
    )


@pytest.mark.parametrize("source", SOURCES)
def test_streams(engine, tmp_path, source):
    compare(engine, pair(tmp_path, source, renamed), asked("streams", source), after_renaming, is_running_number)


def thresholds(question, args):
    """Lengths of time among the arguments: as they are, and twice as long."""
    lengths = {
        name: float(args.get(name, default.replace("auto", "1000")))
        for name, default, _ in QUESTIONS[question].arguments
        if name.endswith("_us")
    }
    return ({**args, **{k: "%g" % (by * v) for k, v in lengths.items()}} for by in (1, 2))


@pytest.mark.parametrize("source", SOURCES)
def test_twice_as_slow(engine, tmp_path, source):
    compare(engine, pair(tmp_path, source, slowed), asked("slow", source), after_slowing, ways=thresholds)


def test_every_question_answers_somewhere(engine, tmp_path):
    """But the segments of a snapshot, which has no events (test_snapshot.py), the counters of CUPTI (test_critical.py),
    what torch.compile compiled (test_compiles.py), layers (test_layers.py), and buckets of two sizes
    (test_bucket_sizes.py)."""
    answered = set()
    for source, (build, *which) in SOURCES.items():
        path = write(build(*which), tmp_path / source.replace(" ", "_"))
        answered |= {
            question
            for question, args in ASKED
            if any("refused" not in row for row in ask(engine, path, question, args))
        }
    assert QUESTIONS.keys() - answered == {"segments", "cupti", "compiles", "layers", "bucket_sizes"}
