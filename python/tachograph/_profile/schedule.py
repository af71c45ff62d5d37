"""Which steps are recorded: ProfilerAction, schedule(), and what a profiler does between two actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from .._say import warn


class ProfilerAction(Enum):
    """What a profiler does during one step. Members equal those of torch.profiler's enumeration, so schedules of both
    fit both."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4  # torch uses it inside; a schedule must not return it

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other).__name__ == "ProfilerAction" and getattr(other, "name", None) == self._name_

    def __hash__(self) -> int:
        return hash(self._name_)  # as every Enum, torch's too


def as_action(value: Any) -> ProfilerAction:
    """What a schedule returned, as ours."""
    if type(value) is ProfilerAction:
        action = value
    elif type(value).__name__ == "ProfilerAction" and hasattr(value, "name"):
        action = ProfilerAction[value.name]
    else:
        raise TypeError(f"the schedule returned {value!r}, which is no ProfilerAction")
    if action is ProfilerAction.DEVICE_STOPPED:
        raise ValueError("a schedule must not return ProfilerAction.DEVICE_STOPPED: it is for internal use")
    return action


class Schedule:
    """schedule(...): a callable from the number of a step to its ProfilerAction."""

    def __init__(self, wait: int, warmup: int, active: int, repeat: int, skip_first: int, skip_first_wait: int) -> None:
        self.wait, self.warmup, self.active, self.repeat = wait, warmup, active, repeat
        self.skip_first, self.skip_first_wait = skip_first, skip_first_wait

    def __call__(self, step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < self.skip_first:
            return ProfilerAction.NONE
        step += (self.wait if self.skip_first_wait else 0) - self.skip_first
        cycle, place = divmod(step, self.wait + self.warmup + self.active)
        if place < self.wait or 0 < self.repeat <= cycle:
            return ProfilerAction.NONE
        if place < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        last = place == self.wait + self.warmup + self.active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    @property
    def steps_needed(self) -> int:
        """Calls of step() until the first window is complete."""
        return self.skip_first + (0 if self.skip_first_wait else self.wait) + self.warmup + self.active

    def describe(self, steps: int | None = None) -> str:
        """In words, what happens in the first `steps` steps; without a number, in all cycles, or in two if they have no
        end."""
        if steps is None:
            cycles = (self.repeat or 2) - 1
            steps = self.steps_needed + cycles * (self.wait + self.warmup + self.active)
        recorded, parts = 0, []
        for first, last, words in _runs(self, steps):
            parts.append((f"step {first}" if first == last else f"steps {first}-{last}") + f" {words}")
            recorded += last - first + 1 if words.startswith("recorded") else 0
        if steps < self.steps_needed:
            parts.append(f"the first window needs {self.steps_needed} steps")
        elif self.repeat == 0:
            parts.append("and so on for ever")
        return f"{recorded} of {steps} steps are recorded: " + "; ".join(parts)

    def __repr__(self) -> str:
        names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
        return f"schedule({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


def _runs(plan: Callable[[int], ProfilerAction], steps: int) -> Iterator[tuple[int, int, str]]:
    """(first, last, what) of the longest stretches of steps with one action; a stretch of recording ends where its
    window does."""
    words = {ProfilerAction.NONE: "not recorded", ProfilerAction.WARMUP: "warm-up"}
    window, first, what = 0, 0, ""
    for step in range(steps):
        action = plan(step)
        now = words.get(action, f"recorded (window {window + 1})")
        if step and now != what:
            yield first, step - 1, what
            first = step
        what = now
        window += action is ProfilerAction.RECORD_AND_SAVE
    if steps > 0:
        yield first, steps - 1, what


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """A schedule for `profile(schedule=…)`: pass over `skip_first` steps, then again and again pass over `wait`, warm
    up for `warmup` and record `active` steps; `repeat` times, 0 = for ever. `skip_first_wait`: the first cycle does not
    wait."""
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")
    return Schedule(wait, warmup, active, repeat, skip_first, skip_first_wait)


def always_record(_: int) -> ProfilerAction:
    """The schedule of a profiler without one."""
    return ProfilerAction.RECORD


# (action before, action after; None = the end) → what to do, in order: the names of methods of a profiler, or the text
# of a warning. RECORD followed by WARMUP differs from torch, which stops there and forgets to prepare the window that
# follows.
_N, _W, _R, _S = ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
_PREPARE, _START, _STOP, _READY, _DROP = "prepare_trace", "start_trace", "stop_trace", "_trace_ready", "_drop_trace"
TRANSITIONS: dict[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]] = {
    (_N, _N): (),
    (_N, _W): (_PREPARE,),
    (_N, _R): (_PREPARE, _START),
    (_N, _S): (_PREPARE, _START),
    (_N, None): (),
    (_W, _N): ("Incorrect schedule: WARMUP followed by NONE", _DROP),
    (_W, _W): (),
    (_W, _R): (_START,),
    (_W, _S): (_START,),
    (_W, None): (_DROP,),
    (_R, _N): ("Incorrect schedule: RECORD followed by NONE", _STOP),
    (_R, _W): ("Incorrect schedule: RECORD followed by WARMUP", _STOP, _PREPARE),
    (_R, _R): (),
    (_R, _S): (),
    (_R, None): (_STOP, _READY),
    (_S, _N): (_STOP, _READY),
    (_S, _W): (_STOP, _READY, _PREPARE),
    (_S, _R): (_STOP, _READY, _PREPARE, _START),
    (_S, _S): (_STOP, _READY, _PREPARE, _START),
    (_S, None): (_STOP, _READY),
}
