"""The drop-in for torch.profiler: its public names, with the signatures of torch 2.15 on every torch.

import tachograph as tg
with tg.profile(schedule=tg.schedule(wait=1, warmup=1, active=3, repeat=1),
                on_trace_ready=tg.tensorboard_trace_handler("log")) as prof:
    for batch in loader:
        train_step(batch)
        prof.step()
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch.autograd import DeviceType, ProfilerActivity
from torch.autograd.profiler import KinetoStepTracker as KinetoStepTracker
from torch.profiler import RecordScope as RecordScope, itt as itt  # as they are: they record nothing themselves

from . import TachographError, _launch, _torch_own
from ._collect.backend import Recording
from ._collect.config import CuspyConfig, ExperimentalConfig, PerformanceMetricsConfig, ProfilerActivityConfig
from ._labels.annotate import record_function
from ._profile.handlers import tensorboard_trace_handler
from ._profile.observer import ExecutionTraceObserver, ITraceObserver as _ITraceObserver  # noqa: F401  torch.profiler has it
from ._profile.schedule import TRANSITIONS, ProfilerAction, Schedule, always_record, as_action, schedule
from ._profile.step_times import StepTimes
from ._profile.windows import _KinetoProfile as _KinetoProfile, kineto_available, supported_activities
from ._say import heard, info, warn, warn_once

__all__ = [
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "DeviceType",
    "record_function",
    "ExecutionTraceObserver",
    "CuspyConfig",
    "PerformanceMetricsConfig",
    "ProfilerActivityConfig",
]
PROFILER_STEP_NAME = "ProfilerStep"
_ExperimentalConfig = ExperimentalConfig  # as torch calls it
_WORTH_A_LINE_S = 1.0


def __getattr__(name: str) -> Any:
    """What else torch keeps in its module: its submodules, and private names that programs use all the same."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_torch_own.profiler, name)


class profile(_KinetoProfile):
    """Records what torch does, all the time or in the steps that a schedule selects; on_trace_ready is called after
    each window.

    All of torch.profiler.profile; beyond it keep_last=n (of the files that handlers write, only those of the last n
    windows stay, and a window that the loop's end cuts short is dropped where a complete one is there) and what
    _KinetoProfile adds."""

    _measures_records = True  # at the end of it all; some tenths of a second, which a training does not wait for

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        use_cuda: bool | None = None,
        preset: str | None = None,
        keep_last: int | None = None,
        memory_budget: float | str = 0,
        disk_budget: float | str = 0,
        backend: str = "auto",
        nvtx: bool = False,
    ) -> None:
        if use_cuda is not None:
            warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
            activities = _with_cuda(activities, use_cuda)
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"keep_last={keep_last}: at least one window is kept")
        # Any: torch's own class of them is registered as an ITraceObserver, which no type checker sees.
        observer: Any = execution_trace_observer or ExecutionTraceObserver.build_execution_trace_obs_from_env()
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            preset=preset,
            memory_budget=memory_budget,
            disk_budget=disk_budget,
            backend=backend,
            nvtx=nvtx,
        )
        if schedule is None and preset == "train":
            schedule = Schedule(wait=1, warmup=2, active=3, repeat=1, skip_first=0, skip_first_wait=0)
        self.schedule = schedule or always_record
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.keep_last = keep_last
        self.step_num = 0
        self.step_rec_fn: Any = None
        self.current_action = as_action(self.schedule(0))
        self.action_map: dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[], Any]]] = {
            between: [getattr(self, what) if hasattr(self, what) else partial(warn, what) for what in whats]
            for between, whats in TRANSITIONS.items()
        }
        if self.record_steps:
            self._budgets["keep"] = "first"
        self._lock = threading.RLock()
        self._owner: int | None = None  # the process that started it and has not stopped it
        self._in_handler = self._stop_asked = False
        self._advised = False
        self.step_times = StepTimes()
        self._complete = 0  # windows that got all their steps
        self._drops_window = False  # the one that ends now: keep_last keeps complete ones only
        self._files: list[list[str]] = []  # by the handler, by window
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        if self._owner is not None:  # unless the block has stopped it
            self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """The first step begins, recorded if the schedule says so. A profiler that runs already warns and goes on;
        RuntimeError in a handler."""
        with self._lock:
            self._outside_handler("start")
            if self._owner == os.getpid():
                warn("start(): this profiler runs already")
                return
            if self._owner is not None:  # a forked child starts again: the window in progress is the parent's
                self._recording, self.step_rec_fn = None, None
            self._transit(ProfilerAction.NONE, self.current_action)
            self._owner = os.getpid()
            _running.add(self)
            self._enter_step()

    def step(self) -> None:
        """The next step begins."""
        with self._lock:
            self._outside_handler("step")
            if not self._runs("step"):
                return
            action = as_action(self.schedule(self.step_num + 1))
            self._check_stop(self.current_action, action)
            self.step_times.ended(self.current_action)
            self._leave_step()
            self.step_num += 1
            before, self.current_action = self.current_action, action
            self._transit(before, action)
            if os.environ.get("KINETO_USE_DAEMON"):
                KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
            if self._stop_asked:
                self._finish()
            else:
                self._enter_step()
        _launch.step(self.step_rec_fn is not None)

    def stop(self) -> None:
        """Ends the window in progress and hands it to on_trace_ready; in a handler, as soon as that has returned."""
        with self._lock:
            if self._in_handler:
                self._stop_asked = True  # done when the handler has returned
                return
            if not self._runs("stop"):
                return
            action = self.current_action
            self._check_stop(action, None)
            self._leave_step()
            is_cut_short = self.record_steps and action is ProfilerAction.RECORD
            self._drops_window = is_cut_short and self.keep_last is not None and self._complete > 0
            try:
                self._transit(action, None)
            finally:
                self._finish()
                self._drops_window = False
            self._warn_incomplete(action)
            self._log_overhead()

    def _finish(self) -> None:
        self._owner, self._stop_asked = None, False
        self.step_times.window_ended()
        _running.discard(self)

    def _runs(self, what: str) -> bool:
        if self._owner == os.getpid():
            return True
        if self._owner is None:
            warn(f"{what}(): this profiler was not started, or is stopped already")
        else:
            warn_once(
                f"{what}(): this profiler belongs to the process that started it; a forked child can start one of its own"
            )
        return False

    def _outside_handler(self, what: str) -> None:
        if self._in_handler:
            raise RuntimeError(
                f"{what}() was called from inside on_trace_ready, where the window has just ended; of a profiler's controls "
                "only stop() works there"
            )

    def _enter_step(self) -> None:
        self.step_times.began()
        if self.record_steps and self._recording is not None and self._recording.running:
            self.step_rec_fn = record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _leave_step(self) -> None:
        annotation, self.step_rec_fn = self.step_rec_fn, None
        if annotation is not None:
            annotation.__exit__(None, None, None)

    def _check_stop(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Raises, before anything has changed, when the window would end here and cannot."""
        if self._recording is not None and "stop_trace" in TRANSITIONS[before, after]:
            self._recording.check_stop()

    def _transit(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._complete += 1
        try:
            for act in self.action_map[before, after]:
                if self._stop_asked:
                    break
                act()
        except BaseException:
            if self._recording is None and after is not None:
                self.current_action = (
                    ProfilerAction.NONE
                )  # whatever failed, no window is open: the schedule goes on from there
            raise

    def _finished(self, purpose: str) -> Recording:
        window = super()._finished(purpose)
        if not self._advised and not self.record_steps:
            self._advised = True
            self._advise(window)
        return window

    def _advise(self, window: Recording) -> None:
        """A whole training run in one window costs time and disk, and a few of its steps say the same."""
        marks = ("Optimizer.step#", "enumerate(DataLoader)#")
        try:
            named = window.trace().ask("annotations")
        except TachographError:  # nothing in it has a name
            return
        steps = max((row["calls"] or 0 for row in named if (row["name"] or "").startswith(marks)), default=0)
        if steps > 10:
            info(
                f"one window holds {steps} steps ({window.event_count:,} events); 3 to 10 are enough to see where the "
                "time goes: schedule=schedule(wait=1, warmup=2, active=3, repeat=1), and step() in the loop"
            )

    def stop_trace(self) -> None:
        before = self._windows
        super().stop_trace()
        if self._drops_window:
            self._windows = before

    def _trace_ready(self) -> None:
        if self.on_trace_ready is None or self._drops_window:
            return
        self._in_handler = True
        self._files.append([])
        try:
            self.on_trace_ready(self)
        finally:
            self._in_handler = False
            self._prune_files()
        if len(self._files) == 2 and self.keep_last is None and self._endless() and self._files[-1]:
            warn(
                "the schedule has no end (repeat=0): a file is written every cycle for as long as the program runs; "
                "pass schedule(repeat=…), or profile(keep_last=…) to keep the newest only"
            )

    def _endless(self) -> bool:
        return isinstance(self.schedule, Schedule) and self.schedule.repeat == 0

    def _prune_files(self) -> None:
        while self.keep_last is not None and len(self._files) > self.keep_last:
            for path in self._files.pop(0):
                if os.path.exists(path):
                    os.unlink(path)

    def export_chrome_trace(
        self,
        path: str,
        use_python_export: bool = False,
        cuda_graph_annotations: Any = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
    ) -> None:
        super().export_chrome_trace(path, use_python_export, cuda_graph_annotations, graph_lanes, default_stream)
        if self._in_handler:
            self._files[-1].append(os.path.abspath(path))

    def _warn_incomplete(self, action: ProfilerAction) -> None:
        """The loop ended before a window of the schedule was complete: say so, loudly if there is no complete one at
        all."""
        plan = self.schedule
        if not isinstance(plan, Schedule) or action is ProfilerAction.RECORD_AND_SAVE:
            return
        if self._complete == 0:
            warn(
                f"the loop ended before the recording window was complete: {plan.steps_needed} steps were needed "
                f"(wait {plan.wait}, warmup {plan.warmup}, active {plan.active}), {self.step_num} were seen"
                + ("; nothing was recorded" if action is not ProfilerAction.RECORD else "")
            )
        elif action is ProfilerAction.RECORD:
            info(
                f"the last window is incomplete: the loop ended at step {self.step_num}; "
                + (
                    f"with schedule(..., repeat={self._complete}) a complete one is the last, which is what an export writes"
                    if self.keep_last is None
                    else f"keep_last={self.keep_last} drops it, and tables and exports are of the last complete one"
                )
            )

    def _log_overhead(self) -> None:
        """What was recorded and its overhead; not for a short block, where one line would be more than it has to
        say."""
        window = self._windows[-1] if self._windows else None
        if (
            window is None
            or not (self.record_steps or window.stats.profiling_window_duration_sec > _WORTH_A_LINE_S)
            or not heard()
        ):
            return
        parts = self.step_times.window_steps if self.record_steps else 1
        price = window.price(parts) if self._measures_records else None
        cost = self.step_times.words(price)
        if not cost and price is not None and window.cpu_ns:
            cost = price.words(window.cpu_ns, False, "the CPU time of the process meanwhile")
        words = [text for text in (window.count_words(), cost) if text]
        if words:
            info("; ".join(words))

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """callback() names the windows to come."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the window that runs, or of the last one."""
        recording = self._recording or (self._windows[-1] if self._windows else None)
        return recording.trace_id if recording else None


def _with_cuda(activities: Iterable[Any] | None, use_cuda: bool) -> list[Any]:
    chosen = list(supported_activities() if activities is None else activities)
    if use_cuda and ProfilerActivity.CUDA not in chosen:
        return [*chosen, ProfilerActivity.CUDA]
    return chosen if use_cuda else [a for a in chosen if a != ProfilerActivity.CUDA]


_running: set[profile] = set()
os.register_at_fork(after_in_child=_running.clear)


@atexit.register
def _stop_at_exit() -> None:
    """A profiler that was not stopped: its window is finished, and handed to its handler, while that is still
    possible."""
    for prof in list(_running):
        warn("the program ends while a profiler is running: it is stopped now; call stop(), or use `with`")
        prof.stop()
