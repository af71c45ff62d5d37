"""The recording API: what is marked from Python is in the file, and nothing is left behind. No torch needed."""

import asyncio
import collections
import concurrent.futures
import gc
import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest
import tachograph as tg
from own_process import comes, least_growth_kib, mapped

record = pytest.importorskip("tachograph._record")
label = record.record_function


class Session:
    """with Session(tmp_path) as s: …; then s.rows() are the slices in order of start, as dicts."""

    def __init__(self, folder, features=0, **options):
        self.folder, self.path = folder, folder / "main.tacho"
        record.open(self.path, features=features, **options)

    def __enter__(self):
        record.resume()
        return self

    def __exit__(self, *exc):
        self.stats = record.close()

    def rows(self, where="1"):
        with tg.open(self.folder) as trace:
            rows = trace.sql(
                "SELECT name, category, start_ns, dur_ns, end_ns, depth, track, args "
                f"FROM slices WHERE category <> 'Trace' AND {where} ORDER BY start_ns, -dur_ns"
            ).to_dicts()
        for row in rows:
            row["args"] = json.loads(row["args"] or "{}")
        return rows

    def names(self, where="1"):
        return [row["name"] for row in self.rows(where)]


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    if record.state()["open"]:
        record.close()
    left = [name for name, is_off in record.self_check().items() if not is_off]
    assert left == []


def inside(inner, outer):
    return outer["start_ns"] <= inner["start_ns"] and inner["end_ns"] <= outer["end_ns"]


# ---- marks -------------------------------------------------------------------------------------------------


def test_what_is_marked_is_in_the_file(tmp_path):
    with Session(tmp_path) as s:
        record.step_begin("ProfilerStep#7")
        record.range_begin("load")
        record.range_end()
        with label("forward"):
            with label("attention"):
                pass
        record.step_end()
        record.counter("queue", -5)
        record.mark("checkpoint")
    rows = {row["name"]: row for row in s.rows()}
    assert {name: row["depth"] for name, row in rows.items() if name != "checkpoint"} == {
        "ProfilerStep#7": 0,
        "load": 1,
        "forward": 1,
        "attention": 2,
    }
    assert inside(rows["attention"], rows["forward"]) and inside(rows["forward"], rows["ProfilerStep#7"])
    assert {row["category"] for name, row in rows.items() if name != "checkpoint"} == {"user_annotation"}
    assert s.stats["lost"] == 0 and s.stats["records"] == 6


def test_nothing_is_recorded_before_resume_during_a_pause_and_after_close(tmp_path):
    s = Session(tmp_path)
    with label("before"):
        pass
    record.resume()
    with label("first"):
        pass
    record.pause()
    with label("paused"):
        pass
    record.resume()
    with label("second"):
        pass
    record.close()
    with label("after"):
        pass
    assert s.names() == ["first", "second"]


def test_a_span_over_a_pause_is_whole(tmp_path):
    with Session(tmp_path) as s:
        with label("long"):
            record.pause()
            record.resume()
    assert s.names() == ["long"]


def test_a_span_that_ends_after_the_recording_is_cut_there(tmp_path):
    open_span = label("unfinished")
    with Session(tmp_path) as s:
        open_span.__enter__()
    open_span.__exit__(None, None, None)
    (row,) = s.rows()
    assert row["name"] == "unfinished"


# ---- names -------------------------------------------------------------------------------------------------


def test_names_of_every_character(tmp_path):
    names = [f"<{chr(i)}>" for i in range(1, 256)] + ["", " ", "日本語", "\U0001f600", "a" * 60000]
    with Session(tmp_path) as s:
        for name in names:
            with label(name):
                pass
    assert s.names() == names


def test_a_zero_and_halves_of_surrogates_are_shown_and_not_lost(tmp_path):
    with Session(tmp_path) as s:
        for name in ("a\0b", "half \ud800", "\udfff"):
            with label(name):
                pass
        record.range_begin("range \ud800")
        record.range_end()
    assert len(s.rows()) == 4
    assert s.names()[0] == "a\u2400b" and s.names()[3] == "range ?"


def test_equal_addresses_are_not_equal_names(tmp_path):
    with Session(tmp_path) as s:
        for i in range(2000):
            with label(f"step {i}"):  # the text of one iteration is freed in the next
                pass
    assert s.names() == [f"step {i}" for i in range(2000)]


def test_wrong_arguments():
    for wrong in (b"bytes", 1, None, ["x"]):
        with pytest.raises(TypeError):
            label(wrong)
    with pytest.raises(TypeError):
        label("x", 3)
    with pytest.raises(TypeError):
        label()
    with pytest.raises(TypeError):
        label("x")(1, 2)


# ---- shapes of use -----------------------------------------------------------------------------------------


def test_recursive_and_entered_again(tmp_path):
    @label("factorial")
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    again = label("again")
    with Session(tmp_path) as s:
        assert factorial(5) == 120
        with again, again:
            pass
        with again:
            pass
    rows = s.rows()
    assert [(row["name"], row["depth"]) for row in rows] == [("factorial", i) for i in range(5)] + [
        ("again", 0),
        ("again", 1),
        ("again", 0),
    ]


def test_exceptions_go_on_and_the_span_ends(tmp_path):
    with Session(tmp_path) as s:
        with pytest.raises(KeyError):
            with label("outer"):
                with label("failing"):
                    raise KeyError("x")
        with label("next"):
            pass
    assert [(row["name"], row["depth"]) for row in s.rows()] == [("outer", 0), ("failing", 1), ("next", 0)]


def test_decorated_functions_stay_what_they_are(tmp_path):
    @label("plain", "with args")
    def plain(a, *, b=2):
        """doc"""
        return a + b

    @label("generator")
    def generator():
        got = yield 1
        yield got
        return "end"

    @label("coroutine")
    async def coroutine(n):
        await asyncio.sleep(0)
        return n

    @label("asynchronous generator")
    async def stream():
        try:
            got = yield 1
            while True:
                got = yield got
        except ValueError:
            yield "caught"

    async def drive():
        g = stream()
        return [
            await coroutine(3),
            await g.asend(None),
            await g.asend(5),
            await g.athrow(ValueError()),
            await g.aclose(),
        ]

    with Session(tmp_path) as s:
        assert plain(1, b=5) == 6 and plain.__doc__ == "doc" and plain.__name__ == "plain"
        g = generator()
        assert next(g) == 1 and g.send("sent") == "sent"
        with pytest.raises(StopIteration) as stop:
            next(g)
        assert stop.value.value == "end"
        assert asyncio.run(drive()) == [3, 1, 5, "caught", None]
    assert s.names() == ["plain", "generator", "coroutine", "asynchronous generator"]


def test_a_subclass_and_the_tools_of_contextlib(tmp_path):
    import contextlib

    calls = []

    class Mine(label):
        def __enter__(self):
            calls.append("enter")
            return super().__enter__()

        def __exit__(self, *exc):
            calls.append("exit")
            return super().__exit__(*exc)

        def __call__(self, function):
            calls.append("call")
            return function

    with Session(tmp_path) as s:
        with Mine("mine") as entered:
            assert entered.name == "mine" and entered.args is None
        Mine("mine")(len)
        with contextlib.ExitStack() as stack:
            stack.enter_context(label("stacked"))
            stack.push(label("pushed").__enter__())
        assert isinstance(label("x"), contextlib.AbstractContextManager)
    assert calls == ["enter", "exit", "call"]
    assert sorted(s.names()) == ["mine", "pushed", "stacked"]


def test_coroutines_that_end_out_of_order(tmp_path):
    async def task(i):
        with label(f"task {i}"):
            await asyncio.sleep(0.001 * (i + 1))

    async def drive():
        await asyncio.gather(*(task(i) for i in range(20)))

    with Session(tmp_path) as s:
        with label("all"):
            asyncio.run(drive())
        with label("after"):
            pass
    rows = {row["name"]: row for row in s.rows()}
    assert len(rows) == 22
    for i in range(20):
        assert inside(rows[f"task {i}"], rows["all"]) and rows[f"task {i}"]["dur_ns"] >= 1_000_000 * (i + 1)
    assert rows["after"]["depth"] == 0


def test_a_span_that_ends_on_another_thread(tmp_path):
    span, started = label("moved"), threading.Event()
    with Session(tmp_path) as s:
        with label("caller"):
            span.__enter__()
            thread = threading.Thread(target=lambda: (started.set(), span.__exit__(None, None, None)))
            thread.start()
            thread.join()
            with label("inner"):
                pass
        for _ in range(600):  # more than the open stack holds: nothing may pile up there
            span.__enter__()
            thread = threading.Thread(target=span.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
        with label("last"):
            pass
    rows = s.rows()
    assert sum(row["name"] == "moved" for row in rows) == 601 and s.stats["lost"] == 0
    by_name = {row["name"]: row for row in rows}
    assert inside(by_name["inner"], by_name["caller"]) and by_name["last"]["depth"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_spans_against_a_model(tmp_path, seed):
    """Random begins and ends of eight labels on three threads, some dropped while open: what the file must hold is
    counted beside it."""
    random = __import__("random").Random(seed)
    threads = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(3)]
    labels, begun, home, expected = [label(f"label {i}") for i in range(8)], [0] * 8, [None] * 8, collections.Counter()
    with Session(tmp_path) as s:
        for _ in range(3000):
            i, thread, act = random.randrange(8), random.choice(threads), random.random()
            if act < 0.02:  # dropped while open
                labels[i], begun[i] = label(f"label {i}"), 0
            elif act < 0.5 and (begun[i] == 0 or home[i] is thread):
                thread.submit(labels[i].__enter__).result()
                begun[i] += 1
                home[i] = thread
            elif begun[i]:
                thread.submit(labels[i].__exit__, None, None, None).result()
                begun[i] -= 1
                expected[f"label {i}"] += 1
        for i in range(8):
            labels[i], begun[i] = None, 0
        for thread in threads:
            thread.submit(lambda: label("end").__enter__().__exit__(None, None, None)).result()
    rows = s.rows()
    assert collections.Counter(row["name"] for row in rows if row["name"] != "end") == expected
    assert [row["depth"] for row in rows if row["name"] == "end"] == [0, 0, 0] and s.stats["lost"] == 0


def test_objects_that_are_entered_and_dropped_leave_no_trace(tmp_path):
    with Session(tmp_path) as s:
        for _i in range(2000):
            label("never ends").__enter__()
        with label("only"):
            pass
    assert [(row["name"], row["depth"]) for row in s.rows()] == [("only", 0)]


def test_threads_share_a_decorated_function(tmp_path):
    @label("work")
    def work(n):
        return work(n - 1) if n else 0

    with Session(tmp_path) as s:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(work, [9] * 200))
    rows = s.rows()
    assert len(rows) == 2000 and sorted({row["depth"] for row in rows}) == list(range(10))


# ---- garbage collector -------------------------------------------------------------------------------------


def test_runs_of_the_garbage_collector(tmp_path):
    before = list(gc.callbacks)

    class Ring:
        pass

    def rubbish(n):
        for _ in range(n):
            ring = Ring()
            ring.self = ring

    gc.collect()
    gc.disable()
    try:
        with Session(tmp_path, record.GC) as s:
            rubbish(7)
            with label("around"):
                young = gc.collect(0)
            old = gc.collect(
                2
            )  # 0 in a process without other threads; other tests' threads may be ending still, and leave something
        gc.collect()
    finally:
        gc.enable()
    rows = s.rows("name = 'Python GC'")
    assert len(rows) == 2
    assert inside(rows[0], s.rows("name = 'around'")[0])
    assert (
        rows[0]["args"] == {"generation": 0, "collected": young} and young >= 7
    )  # a ring's dict may count as an object
    assert rows[1]["args"] == {"generation": 2, "collected": old}
    assert gc.callbacks == before


# ---- sessions ----------------------------------------------------------------------------------------------


def test_misuse_is_one_sentence(tmp_path):
    with pytest.raises(record.RecordError) as nothing:
        record.pause()
    assert nothing.value.code == "NOT_RECORDING"
    with pytest.raises(record.RecordError) as nothing:
        record.close()
    assert nothing.value.code == "NOT_RECORDING"
    with Session(tmp_path):
        with pytest.raises(record.RecordError) as busy:
            record.open(tmp_path / "other.tacho", features=0)
        assert busy.value.code == "BUSY"
    with pytest.raises(record.RecordError) as missing:
        record.open(tmp_path / "no" / "such" / "folder.tacho", features=0)
    assert "folder.tacho" in str(missing.value)
    with pytest.raises(ValueError):
        record.open(tmp_path / "x.tacho", features=0, keep="middle")


def test_metadata(tmp_path):
    with Session(tmp_path) as s:
        with label("x"):
            pass
        record.meta("distributedInfo", '{"rank": 3, "world_size": 8}')
    with tg.open(s.folder) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    assert json.loads((tmp_path / "out.json").read_text())["distributedInfo"] == {"rank": 3, "world_size": 8}


def test_opened_resumed_and_closed_by_three_threads(tmp_path):
    def on_thread(act, *args, **kwargs):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(act, *args, **kwargs).result()

    on_thread(record.open, tmp_path / "main.tacho", features=record.GC)
    on_thread(record.resume)
    with label("here"):
        gc.collect()
    on_thread(record.close)
    with tg.open(tmp_path) as trace:
        assert "here" in list(trace.sql("SELECT name FROM slices")["name"])


def test_many_threads_begin_end_open_and_close_at_once(tmp_path):
    stop = threading.Event()

    def worker():
        while not stop.is_set():
            with label("w"), label("x", "y"):
                gc.collect(0)

    threads = [threading.Thread(target=worker) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            with Session(tmp_path, record.GC | record.SHAPES) as s:
                record.state()
                record.pause()
                record.resume()
                with label("x"):
                    pass
            assert set(s.names()) <= {"w", "x", "Python GC"}
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


def test_closed_inside_a_span_and_inside_a_callback_of_the_collector(tmp_path):
    with Session(tmp_path) as s:
        with label("closed inside"):
            record.close()
            record.open(s.path, features=0)
            record.resume()
        with label("only"):
            pass
    assert s.names() == ["only"]

    def close_it(phase, info):
        if phase == "stop" and record.state()["open"]:
            record.close()

    gc.callbacks.append(close_it)
    try:
        record.open(tmp_path / "main.tacho", features=record.GC)
        record.resume()
        gc.collect()
        assert not record.state()["open"]
    finally:
        gc.callbacks.remove(close_it)


def test_a_thousand_sessions_leave_nothing(tmp_path):
    def session(i):
        with Session(tmp_path, record.GC | record.PROCESS):
            with label(f"name {i}", f"args {i}"):
                gc.collect(0)

    for i in range(50):
        session(i)
    files, threads, numbers = len(os.listdir("/proc/self/fd")), os.listdir("/proc/self/task"), itertools.count(50)
    growth_kib = least_growth_kib(lambda: [session(next(numbers)) for _ in range(250)])
    assert len(os.listdir("/proc/self/fd")) == files
    assert comes(lambda: set(os.listdir("/proc/self/task")) <= set(threads))
    assert growth_kib < 1024 and mapped(str(tmp_path)) == 0


def test_off_means_off(tmp_path):
    assert record.self_check()["clean"]
    with Session(tmp_path, record.GC):
        assert not record.self_check()["clean"]
        callbacks = len(gc.callbacks)
    assert record.self_check()["clean"] and len(gc.callbacks) == callbacks - 1


# ---- processes ---------------------------------------------------------------------------------------------


def run(code, folder, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        **options,
    )


START = """
import os, sys, signal
from tachograph import _record as record
record.open(sys.argv[1] + "/main.tacho", features=record.GC)
record.resume()
def label(name):
    with record.record_function(name):
        pass
"""


def names_in(folder):
    with tg.open(folder) as trace:
        return sorted(trace.sql("SELECT name FROM slices WHERE category = 'user_annotation'")["name"])


@pytest.mark.parametrize(
    "end", ["", "sys.exit(3)", "raise KeyError('x')", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_a_process_that_ends_while_recording(tmp_path, end):
    run(START + f"\nlabel('first')\nlabel('last')\n{end}", tmp_path)
    assert names_in(tmp_path) == ["first", "last"]


def test_forked_children_go_on_in_files_of_their_own(tmp_path):
    done = run(
        START
        + """
with record.record_function("around the fork"):
    children = [os.fork() for _ in range(1)]
    if children == [0]:
        label("child")
        pid = os.fork()
        if pid == 0:
            label("grandchild")
            record.close()
            label("closed")
            os._exit(0)
        os.waitpid(pid, 0)
        os._exit(0)
os.waitpid(children[0], 0)
label("parent")
record.close()
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.tacho"))) == 3
    assert names_in(tmp_path) == ["around the fork", "child", "grandchild", "parent"]


def test_the_process_ends_while_threads_are_inside_spans(tmp_path):
    done = run(
        START
        + """
import threading, time
turns = [0] * 4
def work(i):
    while True:
        with record.record_function("busy"):
            time.sleep(0.0001)
        turns[i] += 1
for i in range(4):
    threading.Thread(target=work, args=(i,), daemon=True).start()
while min(turns) < 20:
    time.sleep(0.01)
""",
        tmp_path,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "busy" in names_in(tmp_path)


# ---- price -------------------------------------------------------------------------------------------------


@pytest.mark.timing
def test_an_inactive_label_costs_less_than_the_emptiest_python_class():
    import time

    class Empty:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return None

    def cost(kind, n=3000):
        began = time.thread_time_ns()
        for _ in range(n):
            with kind("name"):
                pass
        return (time.thread_time_ns() - began) / n

    Empty.__new__ = lambda cls, name: object.__new__(cls)
    ours, theirs = zip(*((cost(label), cost(Empty)) for _ in range(40)))
    assert min(ours) < min(theirs)
