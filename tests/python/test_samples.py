"""Samples of the stack in long stretches without an operator: which function, doing what, on a core or not; by what the
program does there."""

import hashlib
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import tachograph as tg
from tachograph import _record

OPS, STACKS, CALLS = _record.OPS, 4, 32
pytestmark = [
    pytest.mark.frames,
    pytest.mark.skipif(not os.access("/proc/self/syscall", os.R_OK), reason="no /proc/self/syscall"),
]


def record(path, work, label=True, features=STACKS):
    """The samples of three steps of `work`, after as many in which the sampler learns the rate of the clock."""
    _record.open(str(path), features=features)
    try:
        _record.resume()
        for number in range(3):
            if label:
                _record.step_begin(f"ProfilerStep#{number}")
            work()
            if label:
                _record.step_end()
    finally:
        _record.close()
    with tg.open(path) as trace:
        rows = trace.ask("events", where="category == 'python_sample'", args="Call stack,Thread CPU us,Sampled thread")
        return [row for row in rows if not row["Sampled thread"]]


def innermost(row):
    return row["Call stack"].split(";")[0]


def run_on_core():
    end = time.thread_time() + 0.08
    while time.thread_time() < end:
        pass


def sleep_long():
    time.sleep(0.08)


def wait_for_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.08)


def wait_for_socket():
    one, other = socket.socketpair()
    threading.Timer(0.08, other.send, [b"x"]).start()
    one.recv(1)
    one.close()
    other.close()


def wait_for_pipe():
    reading, writing = os.pipe()
    threading.Timer(0.08, os.write, [writing, b"x"]).start()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)


def wait_for_child():
    subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(0.08)"], check=True)


@pytest.mark.parametrize(
    ("work", "doing"),
    [(run_on_core, "running"), (sleep_long, "sleep"), (wait_for_lock, "lock"), (wait_for_socket, "socket"),
     (wait_for_pipe, "pipe"), (wait_for_child, "subprocess")],
)  # fmt: skip
def test_what_a_stretch_is(tmp_path, work, doing):
    rows = record(tmp_path / "a.tacho", work)
    ns = {}
    for row in rows:
        ns[row["name"]] = ns.get(row["name"], 0) + row["dur_ns"]
    assert max(ns, key=lambda what: ns[what]) == doing and ns[doing] >= 60_000_000, (
        ns
    )  # a busy machine shows others, too
    inside = [r for r in rows if r["name"] == doing]
    assert all(any(f": {work.__name__}" in frame for frame in r["Call stack"].split(";")) for r in inside)
    if doing != "subprocess":
        first = work.__code__.co_firstlineno
        last = max(line for _, _, line in work.__code__.co_lines() if line)
        places = [innermost(r) for r in inside]
        assert all(f": {work.__name__}" in p and first < int(p.split("(")[1].split(")")[0]) <= last
                   for p in places if "threading.py" not in p), places  # fmt: skip
    on_core_us = sum(r["Thread CPU us"] for r in rows)
    assert on_core_us > 100_000 if doing == "running" else on_core_us < 60_000, on_core_us  # of 3 x 80 ms


def record_beside(path, beside, work, features=STACKS):
    """Samples of the loop and of the other threads, while `beside` runs on one of its own until the steps end."""
    done = threading.Event()
    thread = threading.Thread(target=beside, args=(done,))
    thread.start()
    _record.open(str(path), features=features)
    try:
        _record.resume()
        for number in range(3):
            _record.step_begin(f"ProfilerStep#{number}")
            work()
            _record.step_end()
    finally:
        _record.close()
        done.set()
        thread.join()
    with tg.open(path) as trace:
        rows = list(trace.ask("events", where="category == 'python_sample'", args="Call stack,Sampled thread"))
    return rows, thread.native_id


def count_beside(done):
    n = 0
    while not done.is_set():
        n += 1


def sleep_beside(done):
    while not done.is_set():
        time.sleep(0.001)


def ask_for_the_gil():
    end = time.perf_counter() + 0.08
    while time.perf_counter() < end:
        time.sleep(0)  # lets the GIL go


def test_other_threads_are_seen_while_the_loop_waits_for_a_lock(tmp_path):
    rows, thread = record_beside(tmp_path / "a.tacho", sleep_beside, wait_for_lock)
    assert all(r["dur_ns"] == 0 for r in rows if r["Sampled thread"]), rows
    others = [r for r in rows if r["Sampled thread"] == thread]  # the runner of the tests may have threads, too
    slept = [r for r in others if r["name"] in ("sleep", "ready") and ": sleep_beside" in innermost(r)]
    assert len(slept) >= len(others) / 2 and len(slept) >= 3, others
    ends = {r["start_ns"] + r["dur_ns"] for r in rows if not r["Sampled thread"] and r["name"] in ("lock", "running")}
    assert all(any(abs(r["start_ns"] - end) <= 2 for end in ends) for r in others)


@pytest.mark.timing
def test_waiting_for_the_gil_is_no_other_lock(tmp_path):
    rows, thread = record_beside(tmp_path / "a.tacho", count_beside, ask_for_the_gil)
    waits = [r for r in rows if not r["Sampled thread"] and r["name"] == "gil"]
    assert sum(r["dur_ns"] for r in waits) >= 100_000_000 and not [r for r in rows if r["name"] == "lock"], rows
    assert all(": ask_for_the_gil" in innermost(r) for r in waits)
    holders = [r for r in rows if r["Sampled thread"] == thread and ": count_beside" in innermost(r)]
    assert len(holders) >= 10 and sum(r["name"] in ("running", "ready") for r in holders) >= len(holders) / 2, rows


def hash_beside(done):
    block = bytes(1 << 20)
    while not done.is_set():
        hashlib.sha256(block).hexdigest()  # without the GIL


def test_threads_that_use_a_core_are_seen_while_the_loop_stands_in_an_operator(tmp_path):
    torch = pytest.importorskip("torch")
    library = torch.library.Library("samples_test", "DEF")
    library.define("stand(Tensor x) -> Tensor")
    library.impl("stand", lambda x: time.sleep(0.08) or x.clone(), "CPU")
    x = torch.zeros(1)
    for beside in (hash_beside, sleep_beside):
        path = tmp_path / f"{beside.__name__}.tacho"
        rows, thread = record_beside(path, beside, lambda: torch.ops.samples_test.stand(x), OPS | STACKS)
        seen = [r for r in rows if r["Sampled thread"] == thread and r["name"] == "running"]
        assert all(": hash_beside" in innermost(r) for r in seen) and bool(seen) == (beside is hash_beside), rows
    library._destroy()


def test_another_thread_than_the_one_that_began(tmp_path):
    """As where a program is attached to: the thread that begins the recording sleeps, and steps are another's."""
    opened, done = threading.Event(), threading.Event()

    def begin():
        _record.open(str(tmp_path / "a.tacho"), features=STACKS)
        _record.resume()
        opened.set()
        done.wait()

    thread = threading.Thread(target=begin)
    thread.start()
    opened.wait()
    try:
        for number in range(4):
            _record.step_begin(f"ProfilerStep#{number}")
            _record.sample_here()
            sleep_long()
            _record.step_end()
    finally:
        _record.close()
        done.set()
        thread.join()
    with tg.open(tmp_path / "a.tacho") as trace:
        rows = trace.ask("events", where="category == 'python_sample'", args="Call stack,Sampled thread")
        rows = [row for row in rows if not row["Sampled thread"]]
    slept = [row for row in rows if row["name"] == "sleep" and "sleep_long" in innermost(row)]
    assert sum(row["dur_ns"] for row in slept) > 0.15e9, rows
    assert not [row for row in rows if "begin" in row["Call stack"]]


def test_samples_do_not_overlap_and_lie_in_the_steps(tmp_path):
    rows = record(tmp_path / "b.tacho", sleep_long)
    spans = sorted((r["start_ns"], r["start_ns"] + r["dur_ns"]) for r in rows)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    with tg.open(tmp_path / "b.tacho") as trace:
        steps = list(trace.ask("events", where="name ~ 'ProfilerStep'"))
        assert all(s["start_ns"] <= a and b <= s["start_ns"] + s["dur_ns"]
                   for a, b in spans for s in steps if s["start_ns"] <= a < s["start_ns"] + s["dur_ns"])  # fmt: skip
        every = trace.ask("events", where="category == 'python_sample'")
        names = [t["name"] for t in trace.ask("tracks") if t["slices"] == len(every)]
        assert len(names) == 1 and "(samples of Python stacks)" in names[0]


@pytest.mark.timing
def test_short_stretches_are_seen_too(tmp_path):
    """40 times 1.5 ms in one function, between the ends of labels: a few short steps are often all that is recorded."""

    def compute():
        end = time.perf_counter() + 0.0015
        while time.perf_counter() < end:
            pass

    def work():
        for _ in range(40):
            with _record.record_function("part"):
                compute()

    rows = [r for r in record(tmp_path / "f.tacho", work) if r["name"] == "running"]
    assert len(rows) >= 3 and all(r["dur_ns"] >= 500_000 for r in rows), rows
    assert sum(": compute" in r["Call stack"] for r in rows) >= len(rows) - 1, rows


def step_then_sleep():
    _record.step_begin("ProfilerStep#1")
    _record.step_end()
    time.sleep(0.08)


def test_none_outside_labels_nor_with_every_call(tmp_path):
    assert record(tmp_path / "c.tacho", step_then_sleep, label=False) == []
    assert record(tmp_path / "d.tacho", sleep_long, features=STACKS | CALLS) == []


def test_nothing_is_left(tmp_path):
    record(tmp_path / "e.tacho", sleep_long)
    assert _record.self_check()["samples of Python stacks"]
    assert not any("samples" in t.name for t in threading.enumerate())


def test_a_forked_child_is_sampled_without_steps(tmp_path):
    """As a DataLoader's worker: the thread that the child begins with, also when another one pauses and resumes."""
    _record.open(str(tmp_path / "a.tacho"), features=STACKS)
    _record.resume()
    _record.step_begin("ProfilerStep#0")
    _record.step_end()
    pid = os.fork()
    if pid == 0:
        try:
            _record.sample_here()
            sleep_long()
            thread = threading.Thread(target=lambda: (_record.pause(), _record.resume()))
            thread.start()
            thread.join()
            run_on_core()
            _record.close()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    _record.close()
    with tg.open(tmp_path / f"a.{pid}.tacho") as trace:
        rows = list(trace.ask("events", where="category == 'python_sample'", args="Call stack"))
    seen = {(row["name"], innermost(row).split(": ")[1]) for row in rows}
    assert ("sleep", "sleep_long") in seen and ("running", "run_on_core") in seen, seen
