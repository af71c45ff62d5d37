"""What `tachograph prove` has in the program while it runs again: steps are found and timed as `tachograph run` does
it, nothing is recorded, and in some blocks of steps the calls of one operator begin later (src/capture/torch_delay.c).

Each block is a line of the log: its number, how often the operator was delayed, and of each step how long it took and
how long its thread was ready and had no core. Behind it stands what other programs used since the first block."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from .. import _record
from .._collect.compiles import compiles
from .._collect.machine_use import MachineUse, core_wait_ns
from . import session
from .steps import StepFinder
from .window import Window


class Proving:
    def __init__(self, settings: dict[str, Any]):
        plan = settings["prove"]
        self.log = session.Log(settings["dir"])
        self.blocks: list[tuple[int, int]] = plan["blocks"]  # place and ns
        self.block_steps: int = plan["steps"]
        self.lead: int = plan["lead"]  # of these, not timed: what was under way when the delay changed ends in them
        self.pid = os.getpid()
        self._window = Window(compiled=compiles.count)  # says when steps are as they stay
        self._at = -1  # the block; before the first the program warms up
        self._times: list[tuple[int, int]] = []
        self._delayed = 0  # before this block
        self._last_ns: int | None = None
        self._waited_ns = 0
        self._use: MachineUse | None = None  # from the first block on
        why = _record.delays_begin(plan["names"])
        if why:
            self.log.write(f"note {why}")
            return
        self.finder = StepFinder(sys.modules["torch"], self._kind, self._boundary, self._break)
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """A child, as a worker of a loader, has no steps, and its operators are not those that were chosen."""
        _record.delay(-1, 0)

    def _kind(self) -> None:
        self._last_ns = None
        self._window.restart()

    def _break(self) -> None:
        self._last_ns = None

    def _boundary(self) -> None:
        if os.getpid() != self.pid or self._at == len(self.blocks):
            return
        try:
            self._look(time.perf_counter_ns(), core_wait_ns() or 0)
        except Exception as error:  # of ours: the program does not notice
            self.log.write(f"note {type(error).__name__}: {error}")
            self._end()

    def _look(self, now_ns: int, waited_ns: int) -> None:
        dur_ns = now_ns - self._last_ns if self._last_ns is not None else None
        step_waited_ns = waited_ns - self._waited_ns
        self._last_ns, self._waited_ns = now_ns, waited_ns
        if self._at < 0:
            compiles.look()
            if self._window.boundary(dur_ns) == "window":
                self.finder.locked = True
                self._next_block()
        elif dur_ns is not None:
            self._times.append((dur_ns, step_waited_ns))
            if len(self._times) == self.block_steps:
                delayed = _record.delayed(self.blocks[self._at][0]) - self._delayed
                times = " ".join(f"{dur_ns} {waited_ns}" for dur_ns, waited_ns in self._times[self.lead :])
                self.log.write(f"block {self._at} {delayed} {times}")
                self._next_block()

    def _note_others(self) -> None:
        """In the step behind a block, which is not timed."""
        if self._use is None:
            self._use = MachineUse()
        used = self._use.since()
        if "others_pct" in used:
            self.log.write(f"others {used['others_pct']}")

    def _next_block(self) -> None:
        self._at, self._times = self._at + 1, []
        self._note_others()
        if self._at == len(self.blocks):
            self._end()
            self.log.write("done")
            return
        place, ns = self.blocks[self._at]
        self._delayed = _record.delayed(place)
        _record.delay(place, ns)

    def _end(self) -> None:
        self._at = len(self.blocks)
        _record.delays_end()
        self.finder.remove()
