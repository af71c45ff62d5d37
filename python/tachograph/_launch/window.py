"""When to record, decided at each step boundary only from the times of the steps.

start   from the import of torch: recorded, in case there are no steps or the program ends soon; until step times agree
base    ten steps that are timed and not recorded; more where torch.compile is still at work
window  so many steps, seconds or bytes, whichever comes first: this is the recording
after   timed; blocks of them not recorded ("after") and recorded into nothing ("probe") in turn, which is what says how
        much recording adds: whatever else the machine does, it does to both
rest    timed, to the end of the program; nothing is decided any more
"""

from __future__ import annotations

from collections.abc import Callable

WARM_LEAST, WARM_MOST = 3, 20  # steps before the times are taken to be stable
AGREE = 0.15  # the last WARM_LEAST steps lie so near their median
BASE_STEPS, BASE_SECONDS = 10, 10.0
QUIET_STEPS = 3  # so many steps without a compilation come before the window
HELD_STEPS, HELD_SECONDS = 100, 120.0  # the window waits no longer for that
AFTER_STEPS = 100  # or so many blocks, enough for an interval; what is left of the program then runs without a hook
PROBE_NS = 20_000_000_000  # so long steps are recorded in turn with others
BLOCK_NS, BLOCK_MOST = 5_000_000, 5  # a block of shorter steps has several


class Pairs:
    """CPU times of neighbouring blocks of steps, one recorded and one not. The order turns around from pair to pair, so
    a machine that becomes slower or faster all the time cancels out."""

    def __init__(self, block: int):
        self.block = block
        self.count = 0  # of whole pairs
        self._steps = self._sum_ns = 0
        self._first_ns = 0

    def is_recorded(self) -> bool:
        """The step that comes. The very first block is recorded and counts for nothing: all texts are new in it."""
        number = self._steps // self.block
        return number == 0 or number % 4 in (2, 3)

    def add(self, cpu_ns: int) -> tuple[int, int] | None:
        """A step's; the end of a pair: what a step of it takes without recording, and with."""
        was_recorded, number = self.is_recorded(), self._steps // self.block
        self._steps, self._sum_ns = self._steps + 1, self._sum_ns + cpu_ns
        if self._steps % self.block:
            return None
        block_ns, self._sum_ns = self._sum_ns // self.block, 0
        if number == 0 or number % 2:
            self._first_ns = block_ns
            return None
        self.count += 1
        return (self._first_ns, block_ns) if was_recorded else (block_ns, self._first_ns)


class Window:
    """boundary() takes each step's time and returns the phase that the next step belongs to.

    meeting(ready, number): where several processes work in step, the number of the step at which all of them begin to
    record, None as long as none was ready for it. is_taken(): the program records itself, and there is one recorder.
    compiled(): how much torch.compile has compiled until now."""

    def __init__(
        self,
        steps: int = 20,
        seconds: float = 30.0,
        bytes: int = 0,
        meeting: Callable[[bool, int], int | None] | None = None,
        is_taken: Callable[[], bool] | None = None,
        compiled: Callable[[], int] | None = None,
    ):
        self.steps, self.seconds, self.bytes, self.meeting = steps, seconds, bytes, meeting
        self.is_taken = is_taken
        self.waited = False  # the window began later, as the recorder was taken
        self.compiled = compiled
        self.held_steps, self.held_ns = 0, 0  # by so much the window began later, as something was compiled
        self.is_compiling = False  # and began though it still was
        self._compiled, self._quiet = 0, 0
        self.phase = "start"
        self._window_ns = [1]  # the recorded steps
        self.done = False  # nothing more is to be decided or timed
        self.pairs: Pairs | None = None  # after the window, where steps can be recorded in turn
        self._times: list[int] = []  # of the current phase
        self._spent_ns = 0

    def boundary(self, dur_ns: int | None, disk_bytes: int = 0, number: int = 0) -> str:
        """A step of dur_ns ended (None: there was no step yet); the next one has this number."""
        if dur_ns is None or self.done:
            return self.phase
        self._times.append(dur_ns)
        self._spent_ns += dur_ns
        n, spent_s = len(self._times), self._spent_ns / 1e9
        ready = self.phase == "base" and (n >= BASE_STEPS or (n >= WARM_LEAST and spent_s >= BASE_SECONDS))
        self._look_at_compiling()
        ready = ready and not self._is_held(dur_ns)
        if self.phase in ("start", "base") and self._begins(ready, number):
            self._enter("window")
        elif self.phase == "start" and (n >= WARM_MOST or self._agree()):
            self._enter("base")
        elif self.phase == "window" and (
            n >= self.steps or spent_s >= self.seconds or (self.bytes and disk_bytes >= self.bytes)
        ):
            self._enter("after")
        elif self.phase in ("after", "probe"):
            self.done = n >= AFTER_STEPS * (self.pairs.block if self.pairs is not None else 1)
            if self._spent_ns >= PROBE_NS:
                self.pairs = None
            self.phase = "probe" if self.pairs is not None and self.pairs.is_recorded() else "after"
        return self.phase

    def usual_ns(self) -> int:
        """The median of the recorded steps."""
        return max(sorted(self._window_ns)[len(self._window_ns) // 2], 1)

    def alternate(self) -> None:
        """Steps that come are recorded in turn with others."""
        self.pairs = Pairs(min(BLOCK_MOST, -(-BLOCK_NS // self.usual_ns())))
        self.phase = "probe"

    def _begins(self, ready: bool, number: int) -> bool:
        if self.meeting is not None:
            at = self.meeting(ready, number)
            ready = at is not None and number >= at
        if not ready or self.is_taken is None or not self.is_taken():
            return ready
        self.waited = True
        return False

    def _look_at_compiling(self) -> None:
        before, self._compiled = self._compiled, self.compiled() if self.compiled is not None else 0
        self._quiet = self._quiet + 1 if self._compiled == before else 0

    def _is_held(self, dur_ns: int) -> bool:
        """Is something still being compiled? What the window showed then is not what the program goes on with."""
        self.is_compiling = self._quiet < QUIET_STEPS
        if not self.is_compiling or self.held_steps >= HELD_STEPS or self.held_ns >= HELD_SECONDS * 1e9:
            return False
        self.held_steps, self.held_ns = self.held_steps + 1, self.held_ns + dur_ns
        return True

    def restart(self) -> None:
        """Another kind of step is counted from here on."""
        if self.phase in ("start", "base"):
            self._enter("start")

    def _agree(self) -> bool:
        last = sorted(self._times[-WARM_LEAST:])
        median = last[len(last) // 2]
        return len(self._times) > WARM_LEAST and all(abs(t - median) <= AGREE * median for t in last)

    def _enter(self, phase: str) -> None:
        if self.phase == "window":
            self._window_ns = self._times or [1]
        self.phase = phase
        self._times, self._spent_ns = [], 0


class AttachedWindow(Window):
    """The same for a program that is joined while it runs: the window is now, and there is nothing before it."""

    def __init__(self, steps: int = 20, seconds: float = 30.0, bytes: int = 0):
        super().__init__(steps, seconds, bytes)
        self._enter("window")
        self.count = 0  # steps that were timed

    def boundary(self, dur_ns: int | None, disk_bytes: int = 0, number: int = 0) -> str:
        self.count += dur_ns is not None
        phase = super().boundary(dur_ns, disk_bytes, number)
        self.done = self.done or (phase == "after" and len(self._times) >= BASE_STEPS)
        return phase

    def end(self) -> None:
        """The window ends here, whatever it holds."""
        self._enter("after")

    def restart(self) -> None:
        self._times, self._spent_ns = [], 0
