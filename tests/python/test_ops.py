"""op_kernels, sequences, kernel_annotations, call_graph, call_stack and forward_backward on random traces, against
reference_ops.py; and what must not change when the same content is shifted, stretched, renamed or written in another
order."""

import collections
import copy
import json
import pathlib
import random
import sys
import tempfile

import reference
import reference_ops
import traces
from columns import is_instant, is_running_number, is_time
from hypothesis import HealthCheck, assume, given, settings, strategies as st

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from engine import Refused

SETTINGS = settings(
    max_examples=settings.default.max_examples,
    deadline=None,
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
CONTENT = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "size": st.integers(20, 80),
        "grain": st.sampled_from((1, 250, 1000)),
        "steps": st.integers(0, 3),
        "python": st.booleans(),
    }
)
KEY = ("name", "start_ns", "dur_ns")


# ---- content -----------------------------------------------------------------------------------------------


def backward_thread(rnd, rank, host, span):
    """A thread that autograd runs: engine calls with a node in each, which launches a kernel; half of them below a
    backward annotation."""
    pid, tid = host[0].pid, 990_001
    first = min(e.ts for e in host)
    for k in range(rnd.randint(1, 6)):
        a = first + rnd.randrange(span)
        b = a + rnd.randint(3, 40)
        corr = 900_000 + k
        add = rank.events.append
        add(
            traces.Event(
                "X",
                "autograd::engine::evaluate_function: MmBackward0",
                pid,
                tid,
                "cpu_op",
                a,
                b - a,
                {"External id": 800_000 + 2 * k},
            )
        )
        add(traces.Event("X", "MmBackward0", pid, tid, "cpu_op", a + 1, b - a - 1, {"External id": 800_001 + 2 * k}))
        add(
            traces.Event(
                "X",
                "cudaLaunchKernel",
                pid,
                tid,
                "cuda_runtime",
                a + 2,
                1,
                {"correlation": corr, "External id": 800_001 + 2 * k},
            )
        )
        add(
            traces.Event(
                "X",
                "gemm_kernel<float, 8>",
                0,
                7,
                "kernel",
                b,
                rnd.randint(0, 9),
                {"device": 0, "stream": 7, "correlation": corr},
            )
        )
    for _ in range(rnd.randint(0, 2)):
        a = first + rnd.randrange(span)
        add(traces.Event("X", "## backward ##", pid, host[0].tid, "user_annotation", a, rnd.randint(1, span), None))


def gpu_annotations(rnd, rank):
    work = [e for e in rank.events if e.cat in reference.DEVICE]
    for _ in range(rnd.randint(1, 8) if work else 0):
        one, other = rnd.choice(work), rnd.choice(work)
        start, end = min(one.ts, other.ts), max(one.end, other.end)
        rank.events.append(
            traces.Event(
                "X",
                rnd.choice(("forward", "## forward ##", "ProfilerStep#3")),
                one.pid,
                one.tid,
                "gpu_user_annotation",
                start,
                rnd.choice((0, 1, end - start)),
                {"device": one.pid, "stream": one.tid},
            )
        )


def pairs_of(rank):
    """Flows from forward to backward operators, where it is plain which operator begins at either end; the pairs."""
    starts = collections.Counter((reference.track_of(e), e.ts) for e in rank.events if e.ph == "X")
    plain = [e for e in rank.events if e.cat == "cpu_op" and starts[(reference.track_of(e), e.ts)] == 1]
    backward = [e for e in plain if e.name == "MmBackward0"]
    forward = [e for e in plain if "Backward" not in e.name and backward and e.ts < min(b.ts for b in backward)]
    pairs = list(zip(forward, backward))
    for k, (f, b) in enumerate(pairs):
        for ph, e in (("s", f), ("f", b)):
            rank.events.append(
                traces.Event(
                    ph,
                    "fwdbwd",
                    e.pid,
                    e.tid,
                    "fwdbwd",
                    e.ts,
                    None,
                    None,
                    {"id": 70_000 + k} | ({"bp": "e"} if ph == "f" else {}),
                )
            )
    return pairs


def build(content, span=1000):
    """(rank, pairs): traces.build with what these questions are about."""
    rnd = random.Random(content["seed"])
    rank = traces.build(**content, gpu=True, memory=False, span=span)[0]
    host = [e for e in rank.events if e.cat in ("cpu_op", "user_annotation", "python_function")]
    if host:
        backward_thread(rnd, rank, host, span * content["grain"])
    gpu_annotations(rnd, rank)
    pairs = pairs_of(rank)
    number(rank)
    return rank, pairs


def number(rank):
    for i, e in enumerate(rank.events):
        e.i = i


class Asked:
    """The trace on disk for the length of a with block; refusals without data are no rows."""

    def __init__(self, engine, rank, shift_ns=0):
        self.engine, self.rank, self.shift_ns = engine, rank, shift_ns

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = traces.write([self.rank], pathlib.Path(self.folder.name), 1, plain=True, shift_ns=self.shift_ns)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def __call__(self, question, **args):
        try:
            return self.engine.ask(self.path, question, **args)
        except Refused as refusal:
            if refusal.status != 3:
                raise
            return []


def bag(items):
    return sorted(items, key=repr)


def near(value):
    return float("%.12g" % value) if isinstance(value, float) else value


def picked(row, columns):
    return tuple(near(row[c]) for c in columns)


# ---- against the reference ---------------------------------------------------------------------------------


@SETTINGS
@given(content=CONTENT)
def test_op_kernels(engine, content):
    rank, _ = build(content)
    with Asked(engine, rank) as ask:
        for by in ("sequence", "op", "call"):
            want = reference_ops.op_kernels(rank.events, by)
            columns = sorted(next(iter(want.values()), {}))
            theirs = [
                (key[0], None if key[1] is None else " -> ".join(key[1]), *picked(row, columns))
                for key, row in want.items()
            ]
            ours = [(r["op"], r["sequence"], *picked(r, columns)) for r in ask("op_kernels", by=by)]
            assert bag(ours) == bag(theirs), by


@SETTINGS
@given(
    content=CONTENT,
    wanted=st.sampled_from(("", "aten::", "Backward", "train.py", "forward", "no such name")),
    least=st.integers(1, 3),
)
def test_sequences(engine, content, wanted, least):
    rank, _ = build(content)
    want, inside = reference_ops.sequences(rank.events, wanted, least)
    with Asked(engine, rank) as ask:
        rows = ask("sequences", op=wanted, min_length=least)
        assert {
            (r["op"], r["pattern"]): {c: r[c] for c in ("count", "kernels", "kernel_ns", "op_ns", "start_ns")}
            for r in rows
        } == want
        assert len(rows) == len(want) and [r["count"] for r in rows] == sorted((r["count"] for r in rows), reverse=True)
        assert ask("sequences", op=wanted, min_length=least, top_k=2) == rows[:2]
        place, events = {r["pattern"]: r["place"] for r in rows}, {r["id"]: r for r in ask("events")}
        assert [r["place"] for r in rows] == list(range(1, len(rows) + 1))
        marked = ask("sequences", op=wanted, min_length=least, by="event")
        assert bag((events[r["event"]]["name"], r["start_ns"], r["place"]) for r in marked) == bag(
            (e.name, e.ts, place[p]) for e, p in inside
        )


@SETTINGS
@given(content=CONTENT)
def test_kernel_annotations(engine, content):
    rank, _ = build(content)
    with Asked(engine, rank) as ask:
        for side, cat in (("gpu", "gpu_user_annotation"), ("cpu", "user_annotation")):
            want = reference_ops.kernel_annotations(rank.events, side)
            rows = ask("kernel_annotations", side=side)
            if not any(e.cat == cat for e in rank.events):
                assert rows == []
                continue
            assert bag((r["kernel"], r["start_ns"], r["device_ns"], r["annotation"]) for r in rows) == bag(
                (w.name, w.ts, w.dur, a.name if a else None) for w, a in want
            )
            sums = collections.Counter()
            for w, a in want:
                sums[a.name if a else None] += w.dur
            assert {
                r["annotation"]: r["device_ns"] for r in ask("kernel_annotations", side=side, by="annotation")
            } == dict(sums)


def line(row, parent, figures):
    return (
        tuple(row[c] for c in KEY)
        + (tuple(parent[c] for c in KEY) if parent else None,)
        + tuple(row[c] for c in figures)
    )


@SETTINGS
@given(content=CONTENT)
def test_call_graph_and_call_stack(engine, content):
    rank, _ = build(content)
    want = reference_ops.call_graph(rank.events)
    figures = ("depth", "height", "kernels", "kernel_ns", "first_ns", "last_ns", "kernel_span_ns")

    def place(e):
        return {"name": e.name, "start_ns": e.ts, "dur_ns": e.dur} if e is not None else None

    with Asked(engine, rank) as ask:
        rows = {r["id"]: r for r in ask("call_graph")}
        assert bag(line(r, rows.get(r["parent"]), figures) for r in rows.values()) == bag(
            line({**place(e), **row}, place(up), figures) for e, up, row in want.values()
        )
        kids = collections.defaultdict(list)
        for r in rows.values():
            kids[r["parent"]].append(r["id"])
        for event in random.Random(content["seed"]).sample(sorted(rows), min(4, len(rows))):
            above, below, todo = [], [], list(kids[event])
            while todo:
                below.append(todo.pop())
                todo += kids[below[-1]]
            up = rows[event]["parent"]
            while up is not None:
                above.append(up)
                up = rows[up]["parent"]
            got = ask("call_stack", event=event)
            assert bag((r["relation"], r["id"]) for r in got) == bag(
                [("itself", event)] + [("ancestor", x) for x in above] + [("descendant", x) for x in below]
            )
            assert [r["start_ns"] for r in got] == sorted(r["start_ns"] for r in got)
            assert {r["id"] for r in ask("call_stack", event=event, ancestors=0)} == {event, *below}


@SETTINGS
@given(content=CONTENT)
def test_forward_backward(engine, content):
    rank, pairs = build(content)
    graph = reference_ops.call_graph(rank.events)
    with Asked(engine, rank) as ask:
        rows = ask("forward_backward", by="call")
        assert bag(
            (
                r["forward"],
                r["backward"],
                r["forward_ns"],
                r["backward_ns"],
                r["forward_device_ns"],
                r["backward_device_ns"],
            )
            for r in rows
        ) == bag(
            (f.name, b.name, f.dur, b.dur, graph[f.i][2]["kernel_ns"], graph[b.i][2]["kernel_ns"]) for f, b in pairs
        )
        sums = collections.Counter((f.name, b.name) for f, b in pairs)
        assert {(r["forward"], r["backward"]): r["calls"] for r in ask("forward_backward")} == dict(sums)


@SETTINGS
@given(content=CONTENT)
def test_call_stacks_as_hta_builds_them(engine, content):
    """Nesting by its stack, on threads that are not connected; times in whole microseconds, which it does not round."""
    rank, _ = build({**content, "grain": 1000, "steps": 0})
    rank.events = [
        e
        for e in rank.events
        if not isinstance(e.pid, str) and not isinstance(e.tid, str) and "autograd::" not in e.name and e.ph == "X"
    ]
    for e in rank.events:
        e.ts, e.dur = e.ts // 1000 * 1000, e.dur // 1000 * 1000
    assume(rank.events)
    number(rank)
    threads = reference.group_by(
        [e for e in rank.events if e.cat not in reference.DEVICE + ("gpu_user_annotation",)], reference.track_of
    )
    want = []
    for thread in threads.values():
        up, by_place = reference_ops.hta_parents(thread), {e.i: e for e in thread}
        want += [
            (e.name, e.ts, up[e.i].ts if up[e.i] else None, sum(1 for _ in reference_ops.up_from(e, up)) - 1)
            for e in by_place.values()
        ]
    with Asked(engine, rank) as ask:
        rows = {r["id"]: r for r in ask("call_graph", rules="hta")}
        host = [r for r in rows.values() if r["category"] not in reference.DEVICE + ("gpu_user_annotation",)]
        assert bag(
            (r["name"], r["start_ns"], rows[r["parent"]]["start_ns"] if r["parent"] is not None else None, r["depth"])
            for r in host
        ) == bag(want)


# ---- what must not change, and what must change how --------------------------------------------------------

QUESTIONS = (
    ("op_kernels", {}),
    ("op_kernels", {"by": "call"}),
    ("sequences", {"min_length": 1}),
    ("sequences", {"op": "Backward", "min_length": 1}),
    ("kernel_annotations", {}),
    ("kernel_annotations", {"side": "cpu"}),
    ("kernel_annotations", {"by": "annotation"}),
    ("call_graph", {}),
    ("forward_backward", {}),
)


def answers(ask, change=lambda question, column, value: value, leave_out=()):
    out = []
    for question, args in QUESTIONS:
        rows = [
            {
                c: near(v if v is None else change(question, c, v))
                for c, v in r.items()
                if c not in leave_out and not is_running_number(question, c)
            }
            for r in ask(question, **args)
        ]
        out.append((question, args, bag(rows)))
    return out


@SETTINGS
@given(content=CONTENT, shift=st.integers(-(10**12), 10**15))
def test_shift_moves_instants_alone(engine, content, shift):
    rank, _ = build(content)
    with Asked(engine, rank) as a, Asked(engine, rank, shift) as b:
        assert answers(a, lambda q, c, v: v + shift if is_instant(q, c) else v) == answers(b)


@SETTINGS
@given(content=CONTENT)
def test_times_twice_as_long_double_times_alone(engine, content):
    """An empty kernel stays empty, so nothing else changes."""
    rank, _ = build(content)
    with Asked(engine, rank) as a, Asked(engine, *traces.slowed([rank])) as b:
        assert answers(a, lambda q, c, v: 2 * v if is_time(q, c) else v) == answers(b)


@SETTINGS
@given(content=CONTENT, seed=st.integers(0, 2**32))
def test_order_of_events_changes_nothing(engine, content, seed):
    """Where nothing begins at once: the order of the file decides what is outer, and what comes first."""
    rank, _ = build(content, span=10**7)
    for e in rank.events:
        if e.ph == "X" and e.cat not in reference.DEVICE:
            e.dur += e.dur == 0
    starts = [e.ts for e in rank.events if e.ph == "X" and e.cat != "gpu_user_annotation"]  # these start with a kernel
    labels = [(e.dur, e.pid, e.tid) for e in rank.events if e.cat == "gpu_user_annotation"]
    assume(len(starts) == len(set(starts)) and len(labels) == len(set(labels)))
    with Asked(engine, rank) as a, Asked(engine, *traces.shuffled([rank], seed)) as b:
        left, right = answers(a, leave_out={"thread"}), answers(b, leave_out={"thread"})
        assert left == right


@SETTINGS
@given(content=CONTENT)
def test_names_of_streams_change_nothing(engine, content):
    rank, _ = build(content)
    renamed = copy.deepcopy(rank)
    for e in renamed.events:
        if e.cat in reference.DEVICE + ("gpu_user_annotation",):
            e.tid = e.args["stream"] = e.tid + 1000
    with Asked(engine, rank) as a, Asked(engine, renamed) as b:
        assert answers(a, leave_out={"stream"}) == answers(b, leave_out={"stream"})


# ---- exports -----------------------------------------------------------------------------------------------


def test_patterns_are_marked_in_an_export(tachograph, tmp_path):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
    import make_traces

    trace = tmp_path / "trace.json"
    trace.write_text(make_traces.TRACES["gpu_training.json"]())

    def marked(*arguments):
        done = tachograph("export", str(trace), "--to", "chrome", *arguments)
        assert done.returncode == 0, done.stderr
        events = json.loads(done.stdout)["traceEvents"]
        marks = [(e["name"], e["args"]["Patterns"]) for e in events if "Patterns" in e.get("args", ())]
        for e in events:
            if "Patterns" in e.get("args", ()):
                del e["args"]["Patterns"]
                if not e["args"]:
                    del e["args"]
        return events, marks

    plain, none = marked()
    assert none == []
    events, marks = marked("--patterns", "aten::linear", "--min_length", "1")
    assert events == plain
    assert bag(marks) == bag(
        [
            (name, {"aten::linear|volta_sgemm_128x64_nn": 2})
            for name in ("aten::linear", "aten::addmm", "cudaLaunchKernel", "volta_sgemm_128x64_nn")
        ]
        * 2
    )
    events, marks = marked("--patterns", "ProfilerStep", "--top_k", "1")  # both occur once: the earlier one
    assert events == plain and len(marks) == 19 and len({json.dumps(p) for _, p in marks}) == 1
    assert list(marks[0][1].values()) == [1] and next(iter(marks[0][1])).startswith("ProfilerStep#0|Memcpy HtoD")
    assert tachograph("export", str(trace), "--to", "chrome", "--patterns", "x", "--top_k", "none").returncode == 2
