"""When to record, decided at each step boundary from the times of the steps alone.

start   from the import of torch: recorded, in case there are no steps or the program ends soon; until step times agree
base    ten steps that are timed and not recorded
window  so many steps, seconds or bytes, whichever comes first: this is the recording
after   timed and not recorded; then the program is left alone
"""

from __future__ import annotations

from collections.abc import Callable

WARM_LEAST, WARM_MOST = 3, 20  # steps before the times are taken to be stable
AGREE = 0.15  # the last WARM_LEAST steps lie so near their median
BASE_STEPS, BASE_SECONDS = 10, 10.0
AFTER_STEPS = 100  # enough for an interval; what is left of the program then runs without a hook


class Window:
    """boundary() takes each step's time and returns the phase that the next step belongs to.

    meeting(ready, number): where several processes work in step, the number of the step at which all of them begin to
    record, None as long as none was ready for it."""

    def __init__(
        self,
        steps: int = 20,
        seconds: float = 30.0,
        bytes: int = 0,
        meeting: Callable[[bool, int], int | None] | None = None,
    ):
        self.steps, self.seconds, self.bytes, self.meeting = steps, seconds, bytes, meeting
        self.phase = "start"
        self.done = False  # nothing more is to be decided or timed
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
        if self.phase in ("start", "base") and self._begins(ready, number):
            self._enter("window")
        elif self.phase == "start" and (n >= WARM_MOST or self._agree()):
            self._enter("base")
        elif self.phase == "window" and (
            n >= self.steps or spent_s >= self.seconds or (self.bytes and disk_bytes >= self.bytes)
        ):
            self._enter("after")
        elif self.phase == "after" and n >= AFTER_STEPS:
            self.done = True
        return self.phase

    def _begins(self, ready: bool, number: int) -> bool:
        if self.meeting is None:
            return ready
        at = self.meeting(ready, number)
        return at is not None and number >= at

    def restart(self) -> None:
        """Another kind of step is counted from here on."""
        if self.phase in ("start", "base"):
            self._enter("start")

    def _agree(self) -> bool:
        last = sorted(self._times[-WARM_LEAST:])
        median = last[len(last) // 2]
        return len(self._times) > WARM_LEAST and all(abs(t - median) <= AGREE * median for t in last)

    def _enter(self, phase: str) -> None:
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
