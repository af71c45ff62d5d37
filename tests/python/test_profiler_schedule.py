"""schedule() against a list of steps written out, and every transition of a profiler against the table of torch's
behaviour."""

import inspect
import itertools
import random
import warnings

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph._profile.schedule import TRANSITIONS

NONE, WARMUP, RECORD, SAVE = (
    tg.ProfilerAction.NONE,
    tg.ProfilerAction.WARMUP,
    tg.ProfilerAction.RECORD,
    tg.ProfilerAction.RECORD_AND_SAVE,
)

FIRST_WAIT = "skip_first_wait" in inspect.signature(torch.profiler.schedule).parameters  # torch 2.4 has no such keyword


def written_out(steps, wait, warmup, active, repeat, skip_first, skip_first_wait):
    """The same by appending cycle after cycle."""
    plan, cycle = [NONE] * skip_first, 0
    while len(plan) < steps:
        if repeat and cycle == repeat:
            plan += [NONE] * steps
            break
        plan += (
            [NONE] * (0 if skip_first_wait and cycle == 0 else wait)
            + [WARMUP] * warmup
            + [RECORD] * (active - 1)
            + [SAVE]
        )
        cycle += 1
    return plan[:steps]


@pytest.mark.parametrize("repeat, skip_first, skip_first_wait", list(itertools.product((0, 1, 2), (0, 3), (0, 1))))
def test_every_step(repeat, skip_first, skip_first_wait):
    for wait, warmup, active in itertools.product((0, 1, 3), (1, 2), (1, 2, 5)):
        arguments = dict(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=skip_first_wait,
        )
        plan = tg.schedule(**arguments)
        expected = written_out(40, **arguments)
        assert [plan(n) for n in range(40)] == expected
        if FIRST_WAIT:
            theirs = torch.profiler.schedule(**arguments)
            assert [theirs(n) for n in range(40)] == expected  # members of both enumerations are equal
        assert plan.steps_needed == expected.index(SAVE) + 1


@pytest.mark.parametrize(
    "wrong", [dict(wait=-1), dict(warmup=-1), dict(active=0), dict(repeat=-1), dict(skip_first=-1)]
)
def test_wrong_arguments(wrong):
    arguments = {**dict(wait=1, warmup=1, active=1, repeat=1), **wrong}
    messages = []
    for make in (tg.schedule, torch.profiler.schedule):
        with pytest.raises(AssertionError) as caught:
            make(**arguments)
        messages.append(str(caught.value))
    if not FIRST_WAIT:  # nor said torch 2.4 what it got
        messages[0] = messages[0].split(".")[0]
    assert messages[0] == messages[1]
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1."):
        tg.schedule(wait=1, warmup=1, active=1)(-1)


def test_no_warmup_warns():
    with pytest.warns(UserWarning, match="^Profiler won't be using warmup, this can skew profiler results$") as caught:
        tg.schedule(wait=1, warmup=0, active=1)
    assert caught[0].filename == __file__


def test_describe():
    plan = tg.schedule(wait=1, warmup=2, active=3, repeat=1)
    assert (
        plan.describe()
        == "3 of 6 steps are recorded: step 0 not recorded; steps 1-2 warm-up; steps 3-5 recorded (window 1)"
    )
    assert (
        plan.describe(2)
        == "0 of 2 steps are recorded: step 0 not recorded; step 1 warm-up; the first window needs 6 steps"
    )
    assert plan.describe(8).endswith("steps 3-5 recorded (window 1); steps 6-7 not recorded")
    twice = tg.schedule(wait=0, warmup=1, active=1)
    assert twice.describe() == (
        "2 of 4 steps are recorded: step 0 warm-up; step 1 recorded (window 1); step 2 warm-up; "
        "step 3 recorded (window 2); and so on for ever"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back_to_back = tg.schedule(wait=0, warmup=0, active=2, repeat=2)
    assert (
        back_to_back.describe()
        == "4 of 4 steps are recorded: steps 0-1 recorded (window 1); steps 2-3 recorded (window 2)"
    )
    assert repr(plan) == "schedule(wait=1, warmup=2, active=3, repeat=1, skip_first=0, skip_first_wait=0)"


# ---- transitions -------------------------------------------------------------------------------------------

P, S, X, R, D = "prepare_trace", "start_trace", "stop_trace", "_trace_ready", "_drop_trace"
# As torch's profiler goes from one action (row) to the next: P prepare, S start, X stop, R handler, D drop what was
# prepared, `!` a warning. torch starts and stops where we drop, and after RECORD, WARMUP it forgets to prepare.
TABLE = {
    NONE: {NONE: [], WARMUP: [P], RECORD: [P, S], SAVE: [P, S], None: []},
    WARMUP: {NONE: ["!", D], WARMUP: [], RECORD: [S], SAVE: [S], None: [D]},
    RECORD: {NONE: ["!", X], WARMUP: ["!", X, P], RECORD: [], SAVE: [], None: [X, R]},
    SAVE: {NONE: [X, R], WARMUP: [X, R, P], RECORD: [X, R, P, S], SAVE: [X, R, P, S], None: [X, R]},
}


def test_table_is_complete():
    assert {(a, b) for a, row in TABLE.items() for b in row} == set(TRANSITIONS)


class Spy(tg.profile):
    """A profiler that notes what it would do."""

    def __init__(self, plan):
        super().__init__(activities=[tg.ProfilerActivity.CPU], schedule=lambda n: plan[n])
        self.done = []

    prepare_trace = start_trace = stop_trace = _trace_ready = _drop_trace = None


for name in (P, S, X, R, D):
    setattr(Spy, name, lambda self, name=name: self.done.append(name))


@pytest.mark.parametrize("seed", range(40))
def test_any_schedule(seed):
    chosen = random.Random(seed)
    plan = [chosen.choice((NONE, WARMUP, RECORD, SAVE)) for _ in range(12)]
    spy, expected, warned = Spy(plan), [], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spy.start()
        for _ in plan[1:]:
            spy.step()
        spy.stop()
    for before, after in zip([NONE, *plan], [*plan, None]):
        for action in TABLE[before][after]:
            if action == "!":
                warned.append(f"Incorrect schedule: {before.name} followed by {after.name}")
            else:
                expected.append(action)
    assert spy.done == expected
    assert [str(w.message) for w in caught] == warned
    assert all(w.filename == __file__ for w in caught)


def test_schedules_of_torch_and_of_the_user():
    assert tg.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=1)).current_action is WARMUP
    with pytest.raises(ValueError, match="DEVICE_STOPPED"):
        tg.profile(schedule=lambda n: tg.ProfilerAction.DEVICE_STOPPED)
    with pytest.raises(TypeError, match="the schedule returned 3"):
        tg.profile(schedule=lambda n: 3)


def test_our_schedule_in_torch():
    with torch.profiler.profile(schedule=tg.schedule(wait=1, warmup=1, active=1, repeat=1)) as theirs:
        for _ in range(3):
            torch.ones(2)
            theirs.step()
    assert [e.name for e in theirs.events() if e.name.startswith("ProfilerStep")] == ["ProfilerStep*"]
