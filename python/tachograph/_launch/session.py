"""One process of a `tachograph run`: opens the recording when torch is there, follows the steps, and ends with the
process.

Everything here runs inside the user's program, so an error of ours is written to the log and ends the recording, never
the program. The log (raw/log-PID, one line a fact) is appended at once, so that it survives a kill; src/cli/run_log.c
reads it."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import json
import math
import mmap
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from .._collect.compiles import compiles
from .._collect.kept_graphs import keep_graphs
from .._collect.worker_end import at_worker_end
from . import enter
from .long_steps import LongSteps
from .recorders import FEATURES, Probe, Recorder, can_probe, open_recorder
from .steps import StepFinder
from .threads import ThreadSettings
from .window import Window

_session: Session | None = None
LOG_LINES = 100_000
RECORD, REST, LEAVE = 1, 2, 3
LOOK_SECONDS = 0.1
LEAST_PAIRS = 6  # fewer say nothing for sure
LEAD_STEPS = 3  # most steps between ranks
EXCEPTION_CHARACTERS = 160

# Programs that start the ranks and are no ranks themselves, and torch's own helpers: nothing in them is the user's
# work.
STARTERS = {"torchrun", "torchrun-script", "accelerate", "deepspeed"}
STARTER_MODULES = {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}
COMPILE_WORKER = "compile_worker"  # part of the path or the module of Inductor's pool


def begin() -> None:
    """Called once in a process, right after torch was imported."""
    global _session
    try:
        settings = json.loads(os.environ["TACHOGRAPH_RUN"])
        if settings.get("live"):
            _watch_first(settings["dir"])
        elif "prove" in settings:
            if _is_first(settings["dir"], "proving"):
                from .proving import Proving

                Proving(settings)
        elif _session is None and not is_starter():
            if settings.get("graphs"):
                keep_graphs()
            _session = Session(settings)
    except Exception as error:
        _say(os.environ.get("TACHOGRAPH_RUN", ""), error)


def _is_first(folder: str, name: str) -> bool:
    """Of all processes of the program, is this the first that can have steps? The file of that name is its own then."""
    children = sys.modules.get("multiprocessing.process")
    if is_starter() or _rank() > 0 or (children is not None and children.parent_process() is not None):
        return False
    try:
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    return True


def _watch_first(folder: str) -> None:
    """`tachograph run --live`: one process of the program is watched."""
    if not _is_first(folder, "live"):
        return
    from . import watched  # noqa: F401  here and not beside the program: Ctrl-C then has the exit status of Python's own

    enter.WAIT_SECONDS = math.inf  # for the imports of the program, which has only begun
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    _thread.start_new_thread(enter.enter, (home, folder, os.environ["TACHOGRAPH_RUN"], "watched"))


def is_starter() -> bool:
    words = getattr(sys, "orig_argv", [])
    modules = {words[i + 1] for i, word in enumerate(words[:-1]) if word == "-m"}
    name = os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "")
    return name in STARTERS or bool(modules & STARTER_MODULES) or any(COMPILE_WORKER in word for word in words[:4])


def _say(settings: str, error: BaseException) -> None:
    with contextlib.suppress(Exception):  # there is no place left to say it
        Log(json.loads(settings)["dir"]).write(f"note not recorded: {type(error).__name__}: {error}")


def current() -> Session | None:
    return _session


def set_current(session: Session | None) -> None:
    global _session
    _session = session


def _forked() -> None:
    if _session is not None:
        _session.forked()


os.register_at_fork(after_in_child=_forked)


class Log:
    """Facts about this process, one line each, each written at once and whole."""

    def __init__(self, directory: str):
        self.path = os.path.join(directory, "raw", f"log-{os.getpid()}")
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._left = LOG_LINES

    def write(self, line: str) -> None:
        if self._left > 0:
            self._left -= 1
            os.write(self._fd, line.replace("\n", " ").encode("utf-8", "replace") + b"\n")

    def is_full(self) -> bool:
        return self._left <= 0

    def close(self) -> None:
        self._left = 0
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def harmless(method: Callable) -> Callable:
    """An error of ours ends the recording and is noted; the program does not notice."""

    @functools.wraps(method)
    def guarded(self: Session, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:
            self.abandon(f"{type(error).__name__} in {method.__name__}: {error}")
            return None

    return guarded


def _rank() -> int:
    """The rank from the launcher of this process, -1 without one."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return -1


@functools.cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # here: a program that is attached to does not import it for us

    return tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def last_exception() -> str:
    """What ended the program, with the innermost line of its own code: "ValueError: no rows (train.py:12)"; "" where
    nothing did. Python keeps it for debuggers before functions of atexit run."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return ""
    text = (str(error).splitlines() or [""])[0][:EXCEPTION_CHARACTERS]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [place for place in lines if not place[0].startswith(("<", *_libraries()))] or lines
    return f"{said} ({os.path.relpath(own[-1][0])}:{own[-1][1]})" if own else said


def own_window() -> bool:
    """Does the program record itself, with tg.profile or a flight recorder? There is one recorder in a process."""
    backend = sys.modules.get("tachograph._collect.backend")
    window = backend.current() if backend is not None else None
    flight = sys.modules.get("tachograph._flight.ring_recorder")
    return (window is not None and window.kind == "native") or (flight is not None and flight.current() is not None)


class Session:
    first_phase = "start"
    alternates = True

    def __init__(self, settings: dict, log: Log | None = None):
        self.settings = settings
        self.torch = sys.modules["torch"]
        self.log = log or Log(settings["dir"])
        self.pid = os.getpid()
        self.rank = _rank()
        self.recorder: Recorder | None = None
        self._probe: Probe | None = None
        self._rest: LongSteps | None = None  # the steps behind all that is recorded
        self._is_priced = True  # nothing is left to find out for it
        self.window = self._new_window()
        self._number = 0
        self._last_ns: int | None = None
        self._last_cpu_ns = 0
        self._other_runs, self._others = False, 0  # the program's own profiler: now, and in how many recorded steps
        self._meet: int | None = None
        self._shared_state = mmap.mmap(-1, 1)  # seen by forked children: do they record now?
        self.log.write(f"process {os.getppid()} {self.rank} {sys.argv[0] if getattr(sys, 'argv', None) else ''}")
        self._open(self.first_phase)
        self._find_steps()
        self.threads: ThreadSettings | None = None
        self._watch()

    def _watch(self) -> None:
        if self.window.phase == "start":
            self.threads = ThreadSettings(self.torch)
        self._watch_rank()
        atexit.register(self._finish)
        at_worker_end(self, Session._finish)

    # ---- the recording

    def _open(self, phase: str) -> None:
        self._close()
        path = os.path.join(self.settings["dir"], "raw", f"{phase}-{self.pid}.tacho")
        self.recorder = open_recorder(path, phase, self.settings, self.rank, self.log.write)
        self._shared_state[0] = RECORD
        self.log.write(f"phase {phase} {self._number} {self.recorder.name}")

    def _close(self) -> None:
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            self._close_recorder(recorder)

    def _close_recorder(self, recorder: Recorder) -> None:
        lost, records = recorder.close()
        self.log.write(f"closed {recorder.phase} {records} {lost}")
        if recorder.why:
            self.log.write(f"note {recorder.why}")
        if self._others:
            steps = f"{self._others} recorded step{'s' * (self._others > 1)}"
            self.log.write(f"note the program's own profiler ran in {steps}: times there include what it costs")
            self._others = 0
        left = recorder.left_behind()
        if left:
            self.log.write(f"note off is not off: still installed after the recording: {', '.join(left)}")

    def abandon(self, reason: str) -> None:
        try:
            self.window.done = True
            self.log.write(f"note recording ended early: {reason}")
            self.finder.remove()
            self._end_probe()
            self._end_rest()
            self._unwatch_threads()
            self._close()
        except Exception:
            pass  # the log or the recorder is what is broken

    @harmless
    def _finish(self) -> None:
        if os.getpid() != self.pid:
            return
        exception = last_exception()
        if exception:
            self.log.write(f"exception {exception}")
        if self.window.waited and self.window.phase == "base":
            self.log.write(
                "note the program's own tachograph profiler recorded to the end: no steps were recorded beside it"
            )
        self._end_probe()
        self._end_rest()
        self._close()
        if self._number:
            self._log_compiles()
        if not self._is_priced and getattr(sys, "last_type", None) is not KeyboardInterrupt:
            # Python ends by the signal of a Ctrl-C only where no source text is evaluated after it. The first use of
            # some of torch's functions evaluates text.
            self._price_records()
        self.log.write("end")

    # ---- what recording adds to a step

    def _begin_probe(self) -> None:
        """From here on steps are recorded in turn with others."""
        path = os.path.join(self.settings["dir"], "raw", f"probe-{self.pid}.tacho")
        self._probe = Probe(path, self.settings, self.rank, self.log.write)
        self.window.alternate()

    def _end_probe(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.close()

    # ---- the rest of the program

    def _begin_rest(self) -> None:
        """From here on no step is recorded in full. All are timed to the end, as far as that takes no hook on all
        modules."""
        if self.alternates and not self.finder.watches_modules:
            self._rest = LongSteps(self.window.usual_ns(), self.log.write)

    def _time_rest(self, now_ns: int, cpu_ns: int) -> None:
        rest = self._rest
        if rest is None:
            return
        self._log_compiles()
        if self._last_ns is not None:
            rest.add(self._number, now_ns - self._last_ns, cpu_ns - self._last_cpu_ns)
            self._number += 1
        self._last_ns, self._last_cpu_ns = now_ns, cpu_ns
        rest.begin(self._number)
        if self.log.is_full():
            self._end_rest()
            self._unwatch()

    def _end_rest(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.close()

    def _time_pair(self, cpu_ns: int) -> None:
        pairs = self.window.pairs
        pair = pairs.add(cpu_ns) if pairs is not None and self._probe is not None else None
        if pairs is not None and pair is not None:
            self.log.write(f"pair {pair[0]} {pair[1]}")
            self._is_priced = pairs.count >= LEAST_PAIRS

    def _price_records(self) -> None:
        """The program has too few steps to compare: what a record costs says what they all do."""
        from .. import _record
        from .._collect.record_cost import record_cost_ns

        self._is_priced = True
        cost = record_cost_ns(getattr(_record, FEATURES[self.settings["preset"]]))
        if cost is not None:
            self.log.write(f"cost {cost[0]:.3f} {cost[1]:.3f}")

    # ---- steps

    def _find_steps(self) -> None:
        self.finder = self._new_finder()

    def _new_finder(self) -> StepFinder:
        return StepFinder(self.torch, self._kind, self._boundary, self._break)

    def _new_window(self) -> Window:
        return Window(
            self.settings["steps"],
            self.settings["seconds"],
            self.settings["bytes"],
            self._meeting,
            own_window,
            compiles.count,
        )

    def _meeting(self, ready: bool, number: int) -> int | None:
        """Ranks of a job record the same steps: the first that is ready names one a little ahead, and all others go by
        that."""
        if self.rank < 0:
            return number if ready else None
        if self._meet is None:
            path = os.path.join(self.settings["dir"], "raw", "log-meeting")
            if ready and not os.path.exists(path):
                own = f"{path}.{self.pid}"
                with open(own, "w") as file:
                    file.write(str(number + LEAD_STEPS))
                with contextlib.suppress(FileExistsError):
                    os.link(own, path)  # whole at once, and for one rank only
                os.unlink(own)
            try:
                with open(path) as file:
                    self._meet = int(file.read())
            except FileNotFoundError:
                return None
        return self._meet

    @harmless
    def _kind(self) -> None:
        self.log.write(f"source {self.finder.name}")
        self.window.restart()
        self._last_ns = None

    @harmless
    def _boundary(self) -> None:
        now_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        if self.window.done:
            self._time_rest(now_ns, cpu_ns)
            return
        compiles.look()
        dur_ns = now_ns - self._last_ns if self._last_ns is not None else None
        phase = self.window.phase
        if self.recorder is not None and dur_ns is not None:
            self.recorder.step_end()
        if dur_ns is not None:
            self._note_step(phase, self._number, dur_ns, cpu_ns - self._last_cpu_ns)
            self._log_compiles()
            self._number += 1
            self._time_pair(cpu_ns - self._last_cpu_ns)
            self._look_for_others()
        disk_bytes = self.recorder.disk_bytes() if self.window.bytes and self.recorder is not None else 0
        next_phase = self.window.boundary(dur_ns, disk_bytes, self._number)
        if next_phase != phase:
            self._change(next_phase)
        if self.window.done:
            self._end_probe()
            self.log.write("phase none")
            if self._rest is None:
                self._unwatch()
            self._last_ns, self._last_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
            return
        if self.recorder is not None and not self.finder.labelled:
            self.recorder.step_begin(self._number)
        if self._rest is not None:
            self._rest.begin(self._number)
        changed = next_phase != phase  # what the change took belongs to no step
        self._last_ns, self._last_cpu_ns = (
            (time.perf_counter_ns(), time.thread_time_ns()) if changed else (now_ns, cpu_ns)
        )

    def _note_step(self, phase: str, number: int, dur_ns: int, cpu_ns: int) -> None:
        self.log.write(f"step {phase} {number} {dur_ns} {cpu_ns}")

    def _unwatch(self) -> None:
        self.finder.remove()

    def _look_for_others(self) -> None:
        """A step in which the program's own torch.profiler runs is longer by what that costs."""
        before, self._other_runs = self._other_runs, bool(self.torch.autograd._profiler_enabled())
        if self.recorder is not None and self.recorder.phase == "window" and self.recorder.name == "native":
            self._others += before or self._other_runs

    def _change(self, phase: str) -> None:
        if phase == "window":
            self.finder.locked = True
            if self.window.waited:
                self.log.write("note the recording waited for the program's own tachograph profiler to end")
            self._note_compiling()
            self._open("window")
            self._unwatch_threads()
            self._is_priced = self.recorder is None or self.recorder.name != "native"
            return
        if self._probe is not None:
            self._probe.pause(phase != "probe")
            return
        recorder = self.recorder
        self._close()
        self._shared_state[0] = REST if phase == "base" else LEAVE
        self.log.write(f"phase {phase} {self._number}")
        if phase == "after":
            self._begin_rest()
        if phase == "after" and recorder is not None and can_probe(recorder) and self.alternates:
            self._begin_probe()

    def _note_compiling(self) -> None:
        """Where torch.compile delayed the window, or was still at work when it began."""
        window = self.window
        held = f"{window.held_steps} steps, {window.held_ns / 1e9:.1f} s"
        if window.held_steps and window.is_compiling:
            self.log.write(
                f"note torch.compile still compiles in every few steps: the window waited for {held}, and began"
            )
        elif window.held_steps:
            self.log.write(f"note the window began {held} later, when torch.compile had ended")

    def _log_compiles(self) -> None:
        """The recording has them when it is closed: not those behind it, nor any of a process that is killed."""
        for row in compiles.new_rows():
            self.log.write(f"compile {row}")

    @harmless
    def _break(self) -> None:
        self._last_ns = None
        if self._rest is not None:
            self._rest.pause()

    def _unwatch_threads(self) -> None:
        if self.threads is not None:
            self.threads.remove()

    # ---- other processes

    @harmless
    def forked(self) -> None:
        """In the child of a fork: the recorder goes on in a file of its own, by itself; the steps and the log are
        new."""
        self.pid = os.getpid()
        self.log.close()  # the parent's
        self.log = Log(self.settings["dir"])
        self.log.write(f"process {os.getppid()} {self.rank} (forked)")
        self.window = self._new_window()
        self._number, self._last_ns, self._others, self._is_priced = 0, None, 0, True
        self._end_probe()
        self._rest = None
        self.finder.forked()
        if self.recorder is not None:
            self.recorder.forked()
            threading.Thread(target=self._follow, args=(self._shared_state,), name="tachograph", daemon=True).start()
        self._shared_state = mmap.mmap(-1, 1)

    @harmless
    def _follow(self, shared_state: mmap.mmap) -> None:
        """In a forked child without steps of its own, as a DataLoader's worker is: record when the parent does."""
        state = RECORD
        while self.finder.kind is None and self.recorder is not None:
            time.sleep(LOOK_SECONDS)
            if shared_state[0] == state:
                continue
            state = shared_state[0]
            if state == LEAVE:
                self._close()
            else:
                self.recorder.pause(state == REST)

    def _watch_rank(self) -> None:
        """Ranks that a program starts by itself have their number from init_process_group."""
        distributed = getattr(self.torch, "distributed", None)
        if self.rank >= 0 or distributed is None or not hasattr(distributed, "init_process_group"):
            return
        original = distributed.init_process_group

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._ranked(distributed)
            return result

        distributed.init_process_group = init_process_group

    @harmless
    def _ranked(self, distributed: Any) -> None:
        rank = distributed.get_rank()
        if self.rank < 0 <= rank and self.window.phase == "start":
            self.rank = rank
            self.log.write(f"rank {rank}")
            if self.recorder is not None:
                self._open("start")
