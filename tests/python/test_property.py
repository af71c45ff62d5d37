"""Random valid traces with a known answer by construction: every question against the slow reference, and what must not
change when the same content is written, ordered, shifted or named differently."""

import collections
import copy
import math
import pathlib
import sys
import tempfile

import pytest
import reference
import traces
from columns import is_instant, is_running_number
from hypothesis import HealthCheck, assume, given, settings, strategies as st

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import shape
from run import Asker

SETTINGS = settings(
    max_examples=max(25, settings.default.max_examples),
    deadline=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
# Times lie on a grid of 1000 points, so equal times, touching and empty slices are common.
CONTENT = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "ranks": st.sampled_from((1, 1, 1, 2, 3)),
        "size": st.integers(3, 90),
        "grain": st.sampled_from((1, 250, 1000, 40_000)),
        "steps": st.integers(0, 4),
        "python": st.booleans(),
        "gpu": st.booleans(),
        "memory": st.booleans(),
    }
)


def askers(engine, ranks, path):
    """One Asker a rank, beside the rank's content."""
    return [(r, Asker(engine, path, r.number if len(ranks) > 1 else None)) for r in ranks]


class Written:
    """A trace on disk for the length of a with block."""

    def __init__(self, engine, ranks, seed, **how):
        self.engine, self.ranks, self.seed, self.how = engine, ranks, seed, how

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = traces.write(self.ranks, pathlib.Path(self.folder.name), self.seed, **self.how)
        return askers(self.engine, self.ranks, path)

    def __exit__(self, *_):
        self.folder.cleanup()


def equal(want, got):
    if isinstance(want, float) and isinstance(got, (int, float)):
        return math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-9)
    return want == got


def check_rows(question, want, rows, key):
    """want: {key: {column: value}}; every row of ours must be wanted, and the other way round."""
    got = {}
    for row in rows:
        assert key(row) not in got, "%s: two rows for %r" % (question, key(row))
        got[key(row)] = row
    assert got.keys() == want.keys(), question
    for k, columns in want.items():
        for c, value in columns.items():
            assert equal(value, got[k][c]), "%s %r, %s: must be %r, is %r" % (question, k, c, value, got[k][c])


# ---- one question each, against the reference --------------------------------------------------------------


def check_overview(rank, ask):
    got = shape.summary(ask)
    x = reference.slices(rank.events)
    assert (got["events"], got["complete_events"]) == (len(rank.events), len(x))
    assert got["categories"] == {str(c): n for c, n in _count(e.cat for e in x).items()}
    assert got["phases"] == _count(e.ph for e in rank.events)
    if x:
        assert got["first_ts_us"] == shape.us(min(e.ts for e in x))
        assert got["last_end_us"] == shape.us(max(e.end for e in x))
    assert got["devices"] == [d["name"] for d in rank.devices]
    assert got.get("rank") == rank.number


def _count(items):
    out = {}
    for i in items:
        out[i] = out.get(i, 0) + 1
    return out


def check_events(rank, ask):
    token = {r["track"]: (r["pid"], r["tid"]) for r in ask("tracks")}
    rows = {r["id"]: r for r in ask("events", by="slice")}
    columns = ("name", "category", "start_ns", "dur_ns", "self_ns", "depth")

    def line(values, parent):
        return tuple(values[c] for c in columns) + (
            (parent["name"], parent["start_ns"], parent["dur_ns"]) if parent else ()
        )

    got = sorted(map(repr, ((token[r["track"]], line(r, rows.get(r["parent"]))) for r in rows.values())))
    wanted, by_place = reference.events(rank.events), {e.i: e for e in rank.events}
    want = sorted(
        repr(((str(by_place[i].pid), str(by_place[i].tid)), line(w, wanted[w["parent"].i] if w["parent"] else None)))
        for i, w in wanted.items()
    )
    assert got == want
    marks = ask("events", by="mark")
    assert sorted((r["phase"], r["name"]) for r in marks) == sorted((e.ph, e.name) for e in rank.events if e.ph != "X")


def check_tracks(rank, ask):
    rows = [r for r in ask("tracks") if r["slices"]]
    check_rows("tracks", reference.tracks(rank.events), rows, lambda r: (r["pid"], r["tid"]))


def check_kernels(rank, ask):
    check_rows("kernels", reference.kernels(rank.events), ask("kernels"), lambda r: (r["category"], r["name"]))


def check_annotations(rank, ask):
    check_rows("annotations", reference.annotations(rank.events), ask("annotations"), lambda r: (r["side"], r["name"]))


def check_memory(rank, ask):
    rows = ask("memory") if any(e.name == "[memory]" for e in rank.events) else []
    check_rows("memory", reference.memory(rank.events), rows, lambda r: r["device"])


def check_launches(rank, ask):
    want = reference.launches(rank.events)
    rows = ask("launches")
    check_rows("launches", {(): want}, rows or [dict.fromkeys(want, 0)], lambda r: ())


def check_ops(rank, ask):
    check_rows("ops", reference.ops(rank.events), ask("ops"), lambda r: r["name"])


def check_key_averages(rank, ask):
    def key(row):
        return row["name"], row["device"], None if row["category"] is None else row["category"] == "user_annotation"

    for python in (0, 1):
        rows = ask("key_averages", python=python)
        check_rows("key_averages", reference.key_averages(rank.events, python), rows, key)
        assert [r["start_ns"] for r in rows] == sorted(r["start_ns"] for r in rows)
    one_each = ask("key_averages", by="event")
    inside = collections.Counter()
    for row in one_each:
        inside[row["parent"]] += row["cpu_ns"]
    for row in one_each:  # total = self + children, whatever overlaps
        assert row["event"] is None or row["cpu_ns"] == row["self_cpu_ns"] + inside[row["event"]]


def check_steps(rank, ask):
    want = reference.steps(rank.events)
    if want is not None:
        numbered = [{**r, "place": k} for k, r in enumerate(ask("steps"))]
        check_rows("steps", dict(enumerate(want)), numbered, lambda r: r["place"])


def check_gaps(rank, ask):
    got = [(r["device"], r["start_ns"], r["dur_ns"]) for r in ask("gaps")]
    assert len(got) == len(set(got)) and set(got) == reference.gaps(rank.events)


def check_stacks(rank, ask):
    want = reference.stacks_by_function(rank.events)
    rows = ask("stacks", by="function") if want else []
    check_rows("stacks", want, rows, lambda r: r["name"])


def check_losses(rank, ask):
    """A valid trace loses nothing; a time written as text is read and reported."""
    assert {r["loss"] for r in ask.engine.ask(ask.path, "losses")} <= {"bent_text_time"}


CHECKS = {
    c.__name__[6:]: c
    for c in (
        check_overview,
        check_events,
        check_tracks,
        check_kernels,
        check_annotations,
        check_memory,
        check_launches,
        check_ops,
        check_key_averages,
        check_steps,
        check_gaps,
        check_stacks,
        check_losses,
    )
}


@pytest.mark.parametrize("question", CHECKS)
@SETTINGS
@given(content=CONTENT, spelling=st.integers(0, 2**32))
def test_question(engine, question, content, spelling):
    with Written(engine, traces.build(**content), spelling) as ranks:
        for rank, ask in ranks:
            CHECKS[question](rank, ask)


# ---- what must not change, and what must change how --------------------------------------------------------

QUESTIONS = (
    ("steps", {}),
    ("ops", {}),
    ("key_averages", {"python": 1}),
    ("kernels", {}),
    ("launches", {}),
    ("gaps", {}),
    ("memory", {}),
    ("annotations", {}),
    ("stacks", {"by": "function"}),
    ("tracks", {}),
    ("events", {"by": "slice"}),
)


def answers(ranks, leave_out=lambda question, column: False, questions=QUESTIONS):
    """Every answer of every rank, rows in an order that does not hang on the order of the file."""
    out = []
    for _, ask in ranks:
        for question, args in questions:
            try:
                rows = ask(question, **args)
            except Exception as refusal:  # the same refusal is an answer too
                rows = [{"refused": type(refusal).__name__}]
            rows = [{k: v for k, v in r.items() if not leave_out(question, k)} for r in rows]
            out.append((question, sorted(rows, key=repr)))
    return out


def canonical(value):
    """Means and shares are sums in some order: compare 12 digits."""
    return float("%.12g" % value) if isinstance(value, float) else value


def assert_same(a, b):
    for (question, left), (_, right) in zip(a, b):
        left, right = ([{k: canonical(v) for k, v in r.items()} for r in rows] for rows in (left, right))
        assert sorted(left, key=repr) == sorted(right, key=repr), question


@SETTINGS
@given(content=CONTENT, one=st.integers(0, 2**32), other=st.integers(0, 2**32))
def test_spelling_changes_nothing(engine, content, one, other):
    ranks = traces.build(**content)
    with Written(engine, ranks, one) as a, Written(engine, ranks, other, plain=True) as b:
        assert_same(answers(a), answers(b))


@SETTINGS
@given(content=CONTENT, shift=st.integers(-(10**12), 10**15))
def test_shift_moves_times_alone(engine, content, shift):
    ranks = traces.build(**content)
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, ranks, 1, plain=True, shift_ns=shift) as b:
        moved = [
            (q, [{k: v + shift if is_instant(q, k) and v is not None else v for k, v in r.items()} for r in rows])
            for q, rows in answers(a)
        ]
        assert_same(moved, answers(b))


@SETTINGS
@given(content=CONTENT, seed=st.integers(0, 2**32))
def test_order_of_events_changes_nothing(engine, content, seed):
    """Where no two slices begin at once, that is: among those the file's order decides which is the outer one."""
    ranks = traces.build(**content, span=10**7)
    for rank in ranks:
        starts = [(e.pid, e.tid, e.ts) for e in rank.events if e.ph == "X"]
        stamps = [(e.ts, e.name) for e in rank.events if e.name == "[memory]"]
        assume(len(starts) == len(set(starts)) and len(stamps) == len(set(stamps)))
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, traces.shuffled(ranks, seed), 1, plain=True) as b:
        assert_same(answers(a, is_running_number), answers(b, is_running_number))


@SETTINGS
@given(content=CONTENT)
def test_stream_names_change_tracks_alone(engine, content):
    ranks = traces.build(**{**content, "gpu": True})
    renamed = copy.deepcopy(ranks)
    for rank in renamed:
        for e in rank.events:
            if e.cat in reference.DEVICE:
                e.tid = e.args["stream"] = e.tid + 1000
            elif e.name == "ac2g" and e.ph == "f":
                e.tid += 1000  # the end of a flow stands on a stream too
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, renamed, 1, plain=True) as b:
        left, right = answers(a), answers(b)
        for question, rows in right:
            for row in rows if question == "tracks" else ():
                if row["pid"] in ("0", "1"):  # a device; the process has another number
                    row["tid"], row["name"] = str(int(row["tid"]) - 1000), None
        for question, rows in left:
            for row in rows if question == "tracks" else ():
                if row["pid"] in ("0", "1"):
                    row["name"] = None
        assert_same(left, right)
