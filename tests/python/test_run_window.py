"""When `tachograph run` records: only step times decide it, so it is tested with step times only."""

import pytest
from tachograph._launch.window import Pairs, Window

MS = 1_000_000


def phases(window, times_ms, disk=0):
    """The phase each of these steps ran in, as (phase, how many in a row)."""
    seen = []
    window.boundary(None)
    for ms in times_ms:
        if window.done:
            break
        if seen and seen[-1][0] == window.phase:
            seen[-1][1] += 1
        else:
            seen.append([window.phase, 1])
        window.boundary(int(ms * MS), disk)
    return [tuple(s) for s in seen]


def test_steady_steps():
    assert phases(Window(), [5] * 500) == [("start", 4), ("base", 10), ("window", 20), ("after", 100)]


def test_slow_first_steps_are_waited_for():
    assert phases(Window(), [900, 50, 30, 5, 5, 5] + [5] * 100)[0] == ("start", 6)


def test_unsteady_steps_are_not_waited_for_forever():
    assert phases(Window(), [5, 50] * 100)[:2] == [("start", 20), ("base", 10)]


def test_long_steps_wait_less():
    assert phases(Window(), [4000] * 100) == [
        ("start", 4),
        ("base", 3),
        ("window", 8),
        ("after", 85),
    ]  # 30 s of 4 s each


def test_whichever_comes_first():
    assert phases(Window(steps=7, seconds=30), [5] * 40)[2] == ("window", 7)
    assert phases(Window(steps=1000, seconds=0.1), [5] * 60)[2] == ("window", 20)
    assert phases(Window(steps=1000, seconds=30, bytes=100), [5] * 60, disk=100)[2] == ("window", 1)


def test_done_means_done():
    window = Window()
    phases(window, [5] * 500)
    assert window.done and window.boundary(5 * MS) == "after"


def test_a_program_that_records_itself_is_waited_for():
    taken = [True]
    window = Window(is_taken=lambda: taken[0])
    assert phases(window, [5] * 40) == [("start", 4), ("base", 36)] and window.waited
    taken[0] = False
    assert phases(window, [5] * 30) == [("base", 1), ("window", 20), ("after", 9)]
    window = Window(is_taken=lambda: False)
    assert phases(window, [5] * 20)[1] == ("base", 10) and not window.waited


@pytest.mark.parametrize("phase, steps, begins_anew", [("start", 2, True), ("base", 6, True), ("window", 20, False)])
def test_a_better_sign_begins_anew_before_the_window_only(phase, steps, begins_anew):
    window = Window()
    phases(window, [5] * steps)
    assert window.phase == phase
    window.restart()
    assert window.phase == ("start" if begins_anew else phase)


def test_ranks_begin_together():
    """The first that is ready names the step; one whose times are not stable yet goes along."""
    named = []

    def meeting(ready, number):
        if ready and not named:
            named.append(number + 3)
        return named[0] if named else None

    steady, unsteady = Window(meeting=meeting), Window(meeting=meeting)
    began = {}
    for number in range(1, 40):
        for window, ms in ((steady, 5), (unsteady, 5 if number % 2 else 50)):
            if window.boundary(ms * MS, 0, number) == "window":
                began.setdefault(window, number)
    assert began == {steady: 17, unsteady: 17}  # 4 steps to be stable, 10 timed, 3 ahead


def alternating(times_ms, steps=20):
    """The phases of steps where those behind the window can be recorded in turn, as letters: P for a probe."""
    window, seen = Window(steps=steps), ""
    window.boundary(None)
    for ms in times_ms:
        if window.done:
            break
        seen += {"start": "s", "base": "b", "window": "w", "after": "-", "probe": "P"}[window.phase]
        if window.pairs is not None:
            window.pairs.add(int(ms * MS))
        window.boundary(int(ms * MS))
        if window.phase == "after" and window.pairs is None and "P" not in seen:
            window.alternate()
    return seen.lstrip("sbw")


def test_steps_behind_the_window_are_recorded_in_turn():
    """The first counts for nothing, then pairs of a bare and a recorded step, the next pair the other way round."""
    assert alternating([9] * 500) == "P" + ("-PP-" * 25)[:99]
    blocks = alternating([2] * 500)  # three steps are 5 ms and more
    assert blocks == "".join(3 * phase for phase in "P" + ("-PP-" * 25)[:99])
    assert len(alternating([0.01] * 900)) == 500  # five at most
    long = alternating([4000] * 200)  # for 20 s no more than that: the fifth step is over then
    assert long == "P-PP-" + "-" * 95


def test_pairs_stay_beside_a_drift_and_a_jump():
    """A recorded step takes 10 % more; the machine becomes twice as slow on the way, and at one step by a half at
    once."""
    pairs, found = Pairs(1), []
    for number in range(101):
        bare = 1000 + 10 * number + (800 if number >= 57 else 0)
        pair = pairs.add(round(bare * 1.1) if pairs.is_recorded() else bare)
        found += [pair] if pair else []
    assert len(found) == pairs.count == 50
    extra = sorted(recorded - bare for bare, recorded in found)
    share = [(recorded - bare) / bare for bare, recorded in found]
    assert sum(0.08 < s < 0.12 for s in share) >= 49  # all but the pair with the jump in it
    assert 0.09 < sum(extra[20:30]) / 10 / sorted(bare for bare, _ in found)[25] < 0.11
    blocks = Pairs(2)
    assert [blocks.add(ns) for ns in (9, 9, 10, 12, 20, 24, 30, 32, 15, 17)] == [
        *[None] * 5,
        (11, 22),  # bare block, then recorded
        *[None] * 3,
        (16, 31),  # the other way round
    ]


def compiling(until, every=1):
    """How much was compiled when this is called once a step, from the first on."""
    steps = iter(range(10**6))
    done = []

    def compiled():
        n = next(steps)
        if n < until and n % every == 0:
            done.append(n)
        return len(done)

    return compiled


def test_the_window_waits_for_compiling_to_end():
    window = Window(compiled=compiling(until=30))
    assert phases(window, [5] * 500)[:3] == [("start", 4), ("base", 29), ("window", 20)]  # until 3 quiet steps
    assert (window.held_steps, window.is_compiling) == (19, False)


def test_what_was_compiled_before_is_not_waited_for():
    window = Window(compiled=compiling(until=8))
    assert phases(window, [5] * 500)[:3] == [("start", 4), ("base", 10), ("window", 20)]
    assert window.held_steps == 0


def test_compiling_without_an_end_is_not_waited_for_forever():
    window = Window(compiled=compiling(until=10**6, every=3))
    assert phases(window, [5] * 500)[:3] == [("start", 4), ("base", 110), ("window", 20)]
    assert window.is_compiling and window.held_steps == 100
    assert phases(Window(compiled=compiling(until=10**6)), [9000] * 100)[1] == ("base", 3 + 14)  # two minutes
