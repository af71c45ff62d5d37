"""Windows of a few steps in a long training: every so many steps, and when a step is slow."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from .._flight import triggers
from .._say import info, warn_once

if TYPE_CHECKING:
    from typing_extensions import Unpack

FINDINGS = 3


class ProfileOptions(TypedDict, total=False):
    """Of tachograph.profile: those of one window."""

    activities: Iterable[Any] | None
    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    experimental_config: Any
    execution_trace_observer: Any
    acc_events: bool
    custom_trace_id_callback: Callable[[], str] | None
    post_processing_timeout_s: float | None
    memory_budget: float | str
    disk_budget: float | str
    backend: str
    nvtx: bool


class Options(ProfileOptions, total=False):
    """What each trainer's function takes beside its own arguments; see StepWindows."""

    every: int
    steps: int
    on: Iterable[str]
    most: int
    preset: str


def check(name: str, options: Iterable[str]) -> None:
    """Refuse an option that there is not, where it is written: the window that would need it comes hours later."""
    there = list(Options.__annotations__)
    for option in options:
        if option not in there:
            import difflib

            near = difflib.get_close_matches(option, there, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(there))}"
            raise TypeError(f"{name} has no option {option!r}; {hint}")


class StepWindows:
    """begin() and end() around each step; finish() at the end of the training. Whatever goes wrong here is a warning:
    the training goes on.

    every: record `steps` steps every so many, the first time after `every` of them (0 = only when triggered). on:
    triggers that record the steps after them, "step > 5x" (the median) or "step > 2s". most: windows in all. log(text,
    step) is called with the findings. Options are those of tachograph.profile."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every: int = 1000,
        steps: int = 5,
        on: Iterable[str] = ("step > 5x",),
        most: int = 20,
        log: Callable[[str, int], Any] | None = None,
        preset: str = "default",
        **options: Unpack[ProfileOptions],
    ) -> None:
        check("StepWindows", options)
        if every < 0 or steps < 1 or most < 1:
            raise ValueError(f"every={every}, steps={steps}, most={most}: every is 0 or more, the others at least 1")
        self.folder = os.fspath(folder)
        self.every, self.steps, self.most, self.log = every, steps, most, log
        kinds, watched = triggers.parse(on)
        if kinds or set(watched) - {"step"}:
            raise ValueError(f"on={on!r}: a trainer is triggered by its steps: 'step > 5x' or 'step > 2s'")
        self._times = watched.get("step")
        self.files: list[str] = []
        self.findings: list[str] = []  # of the last window
        self._options: dict[str, Any] = {"preset": preset, **options}
        self._step, self._windows, self._began_ns = 0, 0, 0
        self._is_disturbed = False  # the step that goes on, by the reading of the last window
        self._profile: Any = None
        self._label: Any = None
        self._until, self._why, self._asked = 0, "", ""
        self._writer: threading.Thread | None = None

    def ask(self, why: str = "asked for") -> None:
        """Record from the next step on."""
        self._asked = why

    def begin(self) -> None:
        """A step begins."""
        due = self.every > 0 and self._step and self._step % self.every == 0
        if self._profile is None and (due or self._asked) and self._windows < self.most:
            self._start(self._asked or f"every {self.every} steps")
        if self._profile is not None:
            from ..profiler import record_function

            self._label = record_function(f"ProfilerStep#{self._step}")
            self._label.__enter__()
        self._is_disturbed = self._writer is not None and self._writer.is_alive()
        self._began_ns = time.perf_counter_ns()

    def end(self) -> None:
        """It ended. Without a begin() nothing happens."""
        if not self._began_ns:
            return
        dur_ns, self._began_ns = time.perf_counter_ns() - self._began_ns, 0
        label, self._label = self._label, None
        if label is not None:
            label.__exit__(None, None, None)
        self._step += 1
        if self._profile is not None:
            if self._step >= self._until:
                self._stop()
            return
        if self._is_disturbed:
            return  # like a recorded step it says nothing about the others
        slow = self._times.observe(dur_ns) if self._times is not None else ""
        if slow:
            self._asked = f"{slow}, step {self._step - 1}"

    def step(self) -> None:
        """For loops without a begin: a step ended and the next begins."""
        self.end()
        self.begin()

    def finish(self) -> None:
        """The training ends: what is recorded is written."""
        label, self._label, self._began_ns = self._label, None, 0
        if label is not None:
            label.__exit__(None, None, None)
        if self._profile is not None:
            self._stop()
        if self._writer is not None:
            self._writer.join()

    def _start(self, why: str) -> None:
        self._asked = ""
        try:
            from ..profiler import profile

            self._profile = profile(**self._options)
            self._profile._measures_records = False
            self._profile.start()
        except Exception as error:  # another recorder is at work, the disk is full, …
            self._profile = None
            warn_once(f"tachograph: these steps are not recorded: {error}")
            return
        self._windows += 1
        self._until, self._why = self._step + self.steps, why

    def _stop(self) -> None:
        profile, self._profile = self._profile, None
        try:
            profile.stop()
        except Exception as error:
            warn_once(f"tachograph: what was recorded is lost: {error}")
            return
        if self._writer is not None:
            self._writer.join()
        # Reading takes longer than a step; the training need not wait for it.
        self._writer = threading.Thread(
            target=self._write, args=(profile, self._step, self._why), name="tachograph-findings"
        )
        self._writer.start()

    def _write(self, profile: Any, step: int, why: str) -> None:
        from .._collect.native import job_rank

        rank = max(job_rank(), 0)
        path = os.path.join(self.folder, f"step-{step:07d}", f"rank{rank}.tacho")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            profile.trace.save(path)
            self.files.append(path)
            self.findings = findings(profile.trace)
            text = "\n".join([f"{self.steps} steps up to {step} ({why}): {path}", *self.findings])
            if rank == 0:
                info(text)
                if self.log is not None:
                    self.log(text, step)
        except Exception as error:
            warn_once(f"tachograph: {path}: {error}")


def findings(trace: Any) -> list[str]:
    """What to change first, a sentence each."""
    answer = trace.ask("findings", limit=FINDINGS)
    rows = answer.to_dicts()
    if not rows:
        return [note for note in answer.notes if note.startswith("nothing found")]
    return [
        f"{row['severity']}: {row['cause']}, {row['share_pct']:.0f} %{_place(row)}: {row['evidence']}. {row['advice']}"
        for row in rows
    ]


def _place(row: dict[str, Any]) -> str:
    return f", {row['where']}" if row["where"] else ""


# ---- where text is logged ------------------------------------------------------------------------------------

TAG = "tachograph/findings"


def log_to_wandb(text: str) -> bool:
    """To the run of W&B that is going on, if there is one."""
    wandb = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if wandb is None or run is None:
        return False
    run.log({TAG: wandb.Html(f"<pre>{text.replace('<', '&lt;')}</pre>")}, commit=False)
    return True


def log_to_writer(writer: Any, text: str, step: int) -> bool:
    """To a SummaryWriter of TensorBoard."""
    if not hasattr(writer, "add_text"):
        return False
    writer.add_text(TAG, "\n\n".join(text.splitlines()), step)
    return True
