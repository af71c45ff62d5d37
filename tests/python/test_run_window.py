"""When `tachograph run` records: decided from step times alone, so it is tested with step times alone."""

import pytest
from tachograph._launch.window import Window

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
