"""Looks at one thread from another, for tachograph watch: the lines it is in, in the shares of time that the program
gives them; every look is counted, and afterwards looking ends."""

import os
import random
import threading
import time

import pytest
from own_process import comes, threads
from tachograph import _record

pytestmark = pytest.mark.frames


class Work:
    """A thread that calls some functions in turn until it is told to end. took: seconds by function."""

    def __init__(self, *functions):
        self.took = dict.fromkeys(functions, 0.0)
        self.thread = threading.Thread(target=self._run, args=functions)
        self._over = threading.Event()

    def _run(self, *functions):
        while not self._over.is_set():
            for function in functions:
                begun = time.perf_counter()
                function()
                self.took[function] += time.perf_counter() - begun

    def __enter__(self):
        self.thread.start()
        assert _record.look_begin(self.thread.ident) == ""
        return self

    def __exit__(self, *_):
        self._over.set()
        self.thread.join()
        _record.look_end()


def taken(least):
    """So many looks from now on, or a few more: how many, without a stack, and times by function, the innermost one."""
    _record.look_take()
    looks, missed, stacks, found = 0, 0, [], {}
    while looks < least:
        time.sleep(0.1)
        more, more_missed, more_stacks = _record.look_take()
        assert more_missed + sum(times for times, _ in more_stacks) == more
        looks, missed, stacks = looks + more, missed + more_missed, stacks + more_stacks
    for times, stack in stacks:
        name = stack[0][2] if stack[0] else None
        found[name] = found.get(name, 0) + times
    return looks, missed, found, stacks


def sleep_long():
    time.sleep(0.06)


def sleep_short():
    time.sleep(0.02)


def test_shares_are_those_of_the_time():
    with Work(sleep_long, sleep_short) as work:
        looks, missed, found, stacks = taken(330)
    assert missed < looks / 20, (looks, missed)
    share = found["sleep_long"] / (found["sleep_long"] + found["sleep_short"])
    took = work.took[sleep_long] / sum(work.took.values())  # three quarters, where a thread that wakes has a core
    assert share == pytest.approx(took, abs=0.12), found  # 5 standard errors of 330 looks
    lines = {stack[0][1] for _, stack in stacks if stack[0] and stack[0][2] == "sleep_long"}
    assert lines == {sleep_long.__code__.co_firstlineno + 1}
    assert {stack[0][0] for _, stack in stacks if stack[0] and stack[0][2] == "sleep_long"} == {__file__}
    outer = [[place[2] for place in stack if place] for _, stack in stacks]
    assert all(names[-1] == "_bootstrap" and "_run" in names for names in outer), outer


def test_a_thread_that_computes():
    def add():
        return sum(i * i for i in range(1000))

    with Work(add):
        looks, missed, found, _ = taken(80)
    assert found and set(found) <= {"add", "<genexpr>", "_run", "is_set", None}, found
    assert found.get("add", 0) + found.get("<genexpr>", 0) > 0.8 * (looks - missed), found


def test_more_stacks_than_there_is_room_for():
    def deep(depth):
        return time.sleep(0.004) if depth == 0 else deep(depth - 1)

    with Work(lambda: deep(random.randrange(300))):  # more frames than a look reads, too
        time.sleep(2)
        while (result := _record.look_take())[0] < 100:
            time.sleep(10)  # for a machine that lets the looks wait: all are of one time
    looks, missed, stacks = result
    assert 0 < missed < looks and all(len(stack) <= 128 for _, stack in stacks)


def test_functions_that_are_gone_have_no_wrong_name():
    def fresh():
        names = {}
        exec("def %s():\n import time\n time.sleep(0.003)" % random.choice("abc"), names)
        next(value for name, value in names.items() if name in "abc")()

    with Work(fresh):
        _, _, found, _ = taken(160)
    assert set(found) <= {
        "a",
        "b",
        "c",
        "fresh",
        "<genexpr>",
        "choice",
        "_run",
        "<module>",
        "_randbelow_with_getrandbits",
        None,
    }, found


def test_who_cannot_be_looked_at():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert _record.look_begin(thread.ident) == "the thread has ended"
    assert _record.look_take() == (0, 0, [])
    with pytest.raises(TypeError):
        _record.look_begin("main")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_nothing_is_left_and_a_child_has_nothing():
    before = threads()
    with Work(sleep_short):
        assert not _record.self_check()["looks at a thread"]
        child = os.fork()
        if child == 0:
            quiet = _record.self_check()["looks at a thread"] and _record.look_take() == (0, 0, [])
            _record.look_end()
            begun = _record.look_begin(threading.main_thread().ident) == ""
            looks = comes(lambda: _record.look_take()[0] > 0)
            _record.look_end()
            os._exit(0 if quiet and begun and looks else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert taken(1)[0] > 0
    assert _record.self_check()["looks at a thread"]
    assert comes(lambda: threads() <= before)  # join returns before the kernel has taken the thread away
    _record.look_end()  # again


def test_another_thread_from_now_on():
    with Work(sleep_long) as first, Work(sleep_short) as second:
        assert set(taken(20)[2]) <= {"sleep_short", "_run", "is_set"}
        assert _record.look_begin(first.thread.ident) == ""
        assert set(taken(20)[2]) <= {"sleep_long", "_run", "is_set"}
        assert second.thread.is_alive()
