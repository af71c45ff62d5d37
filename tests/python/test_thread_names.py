"""The names that Python gives its threads are the names of their tracks, whenever a thread began or got its name."""

import concurrent.futures
import json
import threading

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import _record


def work(then=lambda: None):
    torch.ones(4).add(1)
    then()
    torch.ones(4).add(1)


def names(trace):
    return {row["name"].partition(" (")[2].removesuffix(")") for row in trace.ask("tracks", where="kind = 'cpu'")}


def test_threads_that_run_begin_end_and_are_renamed(tmp_path):
    before = dict(vars(threading.Thread))
    go, wait = threading.Event(), threading.Event()
    early = threading.Thread(target=lambda: (go.wait(600), work()), name="prefetch")
    other = threading.Thread(target=lambda: work(lambda: (go.set(), wait.wait(600))), name="to be renamed")
    early.start()
    with tg.profile(backend="native") as prof:
        work()
        thread = threading.Thread(target=work, name="ended long ago")
        thread.start()
        thread.join()
        other.start()
        assert go.wait(600)
        other.name = "renamed by another"
        wait.set()
        mine = threading.Thread(
            target=lambda: work(lambda: setattr(threading.current_thread(), "name", "renamed by itself"))
        )
        late = threading.Thread(target=work, name="not yet")
        late.name = "named before it began"
        for thread in (mine, late):
            thread.start()
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="pool (a)") as pool:
            pool.submit(work).result()
        for thread in (early, other, mine, late):
            thread.join()
    found = names(prof.trace)
    assert found >= {
        "prefetch",
        "ended long ago",
        "renamed by another",
        "renamed by itself",
        "named before it began",
        "pool (a)_0",
    }
    assert "MainThread" not in found and len(found) == 7  # the first thread has the name that the system has for it
    assert dict(vars(threading.Thread)) == before
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    with open(tmp_path / "a.json") as file:
        exported = {e["args"]["name"] for e in json.load(file)["traceEvents"] if e["name"] == "thread_name"}
    assert any(name.endswith("(prefetch)") for name in exported), exported


def test_a_first_thread_with_a_name_of_its_own_and_names_that_are_odd():
    main = threading.current_thread()
    main.name = "trainer"
    try:
        with tg.profile(backend="native") as prof:
            work()
            for name in ("", "a\nb\x1b[2J", "\ud800", "x" * 5000, "Ä" * 300):
                thread = threading.Thread(target=work, name=name)
                thread.start()
                thread.join()
    finally:
        main.name = "MainThread"
    found = names(prof.trace)
    assert (
        "trainer" in found and any(set(name) == {"x"} for name in found) and any(set(name) == {"Ä"} for name in found)
    )


def test_what_the_program_names_itself_comes_first():
    def named():
        _record.thread_name("by the program")
        work()

    with tg.profile(backend="native") as prof:
        thread = threading.Thread(target=named, name="by Python")
        thread.start()
        thread.join()
    assert "by the program" in names(prof.trace)


def test_threads_that_begin_between_two_windows_have_names():
    go = threading.Event()
    for _ in range(2):
        with tg.profile(backend="native") as prof:
            work()
    thread = threading.Thread(target=lambda: (go.wait(600), work()), name="between")
    thread.start()
    with tg.profile(backend="native") as prof:
        go.set()
        thread.join()
    assert names(prof.trace) == {"between"}


def test_threads_that_never_record_cost_no_room(tmp_path):
    """Beyond the first, which are written when they begin."""
    from tachograph._collect.thread_names import EARLY

    def threads(count, target):
        for number in range(count):
            thread = threading.Thread(target=target, name=f"request {number:03} {'x' * 900}")
            thread.start()
            thread.join()

    with tg.profile(backend="native") as prof:
        threads(EARLY, lambda: None)
        first = _record.state()["disk_bytes"]
        threads(400, lambda: None)
        assert _record.state()["disk_bytes"] - first < 50_000  # 400 of them would take 360 kB
        last = threading.Thread(target=work, name="the last")
        last.start()
        last.join()
    assert "the last" in names(prof.trace)


def test_a_copy_of_a_flight_recorder_and_a_killed_program(tmp_path):
    go, done = threading.Event(), threading.Event()
    with tg.flight_recorder(on=[], folder=tmp_path, budget="1M") as recorder:
        thread = threading.Thread(target=lambda: (work(), go.set(), done.wait(600)), name="before")
        thread.start()
        assert go.wait(600)
        ring = tmp_path / "as it lies.tacho"
        ring.write_bytes(open(recorder.ring, "rb").read())
        thread.name = "after"
        copy = recorder.dump()
        done.set()
        thread.join()
    assert "before" in names(tg.open(ring)) and "after" in names(tg.open(copy))
