"""flight_recorder(): a lean recording in a ring on disk, and a bounded number of copies when something goes wrong.

The ring is a file that the recorder maps: when the program is killed, it holds what happened before. A copy says in
itself why it was made, and `tachograph report` prints that."""

from __future__ import annotations

import atexit
import collections
import contextlib
import glob
import json
import math
import os
import platform
import queue
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .. import _record
from .._collect import native
from .._collect.config import budget_bytes
from .._imports import Watch, when_imported
from .._say import info, warn
from . import outside, triggers

POLL_SECONDS = 0.5
FOLDER_HOLDS = 4  # times `dumps`: copies of all processes that ever wrote there
_current: FlightRecorder | None = None


def current() -> FlightRecorder | None:
    """The one that runs in this process."""
    return _current if _current is not None and _current.is_on else None


def _forked() -> None:
    """A child has a ring of its own, which the recorder makes, and no triggers: the threads behind them are the
    parent's."""
    if _current is not None:
        _current.is_on = False


os.register_at_fork(after_in_child=_forked)


class FlightRecorder:
    """What flight_recorder() returns; see there. A context manager; all methods may be called from any thread."""

    def __init__(
        self,
        last: float | str,
        budget: float | str,
        on: Iterable[str],
        folder: str | os.PathLike[str],
        dumps: int,
        rest: float | str,
    ) -> None:
        self.last_s, self.rest_s = triggers.seconds("last", last), triggers.seconds("rest", rest)
        self.budget = budget_bytes("budget", budget) or 64 << 20
        self.most, self._kinds, self._watched = _positive(dumps), *triggers.parse(on)
        self.folder = os.path.abspath(os.fspath(folder))
        self.dumps: list[str] = []  # paths of the copies
        self._pid = os.getpid()
        self._quotas: dict[str, triggers.Quota] = {}  # of each kind that was triggered
        self._copies = 0  # number of the last
        self._lock, self._queue = threading.RLock(), queue.SimpleQueue[Any]()
        self._samples: collections.deque[tuple[float, int]] = collections.deque()  # when, records so far
        self._losses: list[Any] = []
        self._number, self._step_ns = 0, 0
        self._undo: list[Callable[[], None]] = []
        self.is_on = False
        self._open()

    @property
    def suppressed(self) -> int:
        """Triggers that made no copy, as there were enough of their kind or the last was too recent."""
        return sum(quota.refused for quota in self._quotas.values())

    # ---- beginning and end -----------------------------------------------------------------------------------

    def _open(self) -> None:
        global _current
        usable, reason = native.available()
        if not usable:
            raise RuntimeError(f"flight_recorder: {reason}; tg.profile(…) records with torch's own collector here")
        os.makedirs(self.folder, exist_ok=True)
        self.ring = os.path.join(self.folder, f"ring-{_who()}.tacho")
        _prune_rings(self.folder, self.most)
        meta = {"flight_recorder": json.dumps({"last_s": self.last_s, "budget": self.budget})}
        try:
            self._recording = native.NativeRecording(
                self.ring, _record.LEAN, disk_bytes=self.budget, memory_bytes=0, keep="last", metadata=meta
            )
        except native.RecordError as error:
            if error.code == "BUSY":
                raise RuntimeError(f"flight_recorder: this process is being recorded already: {error}") from None
            raise
        self.is_on, _current = True, self
        try:
            self._recording.start()
            self._install()
        except BaseException:
            self.close()
            raise

    def _install(self) -> None:
        if "signal" in self._kinds:
            if threading.current_thread() is threading.main_thread():
                self._undo.append(outside.Signal(self.request).close)
            else:
                warn("flight_recorder: SIGUSR2 triggers nothing, as only the main thread can install its handler")
        if self._kinds & {"exception", "oom"}:
            self._undo.append(outside.Exceptions(self.exception).close)
        if "http" in self._kinds:
            path = os.path.join(self.folder, f"http-{_who()}.json")
            self._undo.append(outside.Http(self.request, path).close)
        self._file = outside.File(self.folder) if "file" in self._kinds else None
        watch = when_imported("torch", self._find_steps)
        if isinstance(watch, Watch):
            self._undo.append(watch.cancel)
        self._thread = threading.Thread(target=self._work, name="tachograph-flight", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Stop recording. The ring is removed, the copies stay."""
        with self._lock:
            if not self.is_on:
                return
            self.is_on = False
        atexit.unregister(self.close)
        while self._undo:
            self._undo.pop()()
        thread = getattr(self, "_thread", None)
        if thread is not None:
            self._queue.put(None)
            thread.join()  # a copy that is being made is finished
        self._recording.stop()
        if self.suppressed:
            each = ", ".join(f"{kind} {quota.refused}" for kind, quota in self._quotas.items() if quota.refused)
            limits = f"dumps={self.most}, rest={self.rest_s:g} s"
            info(f"flight_recorder: {self.suppressed} triggers made no copy: {each} ({limits})")
        stem = self.ring.removesuffix(".tacho")
        for path in [self.ring, *glob.glob(f"{glob.escape(stem)}.*.tacho")]:  # of forked children that ended before
            with contextlib.suppress(OSError):
                os.unlink(path)

    def __enter__(self) -> FlightRecorder:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            self.exception(error)
        self.close()

    # ---- steps -----------------------------------------------------------------------------------------------

    def _find_steps(self) -> None:
        from .._launch.steps import StepFinder

        self._finder = StepFinder(sys.modules["torch"], self._new_kind, self._boundary, self._no_step)
        self._undo.append(self._finder.remove)

    def _new_kind(self) -> None:
        """Steps follow from another sign from now on."""
        self._step_ns = 0
        self._finder.drop_module_hook()

    def _no_step(self) -> None:
        """Nothing has begun."""
        self._step_ns = 0

    def _boundary(self) -> None:
        """A step ended, the next begins."""
        if not self.is_on:
            return
        now_ns, before_ns = time.perf_counter_ns(), self._step_ns
        self._step_ns = now_ns
        if before_ns:
            _record.step_end()
            self._number += 1
        if self._losses:
            self._look_at_losses()
        if before_ns and "step" in self._watched:
            reason = self._watched["step"].observe(now_ns - before_ns)
            if reason:
                self.request("step", f"{reason}, step {self._number - 1}", dur_ns=now_ns - before_ns)
        if not self._finder.labelled:
            _record.step_begin(f"ProfilerStep#{self._number}")
        if "oom" in self._kinds:
            _watch_device_memory()

    def loss(self, value: Any) -> None:
        """Say what the loss of this step is: NaN and infinity are a trigger, "nan". A tensor on a device is looked at
        when the step after this one begins, so that nothing waits for it."""
        if not self.is_on or "nan" not in self._kinds:
            return
        if hasattr(value, "detach"):  # torch warns of a number that is taken from what has a gradient
            value = value.detach()
        if getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
            self._losses.append(value)
        elif not math.isfinite(float(value)):
            self.request("nan", f"the loss is {float(value)} in step {self._number}")

    def _look_at_losses(self) -> None:
        losses, self._losses = self._losses, []
        for value in losses:
            if not math.isfinite(float(value)):
                self.request("nan", f"the loss was {float(value)} in step {self._number - 1}")

    def request_took(self, dur_ns: int, what: str = "") -> None:
        """A request to a server took so long; `what` says which one."""
        times = self._watched.get("request")
        reason = times.observe(dur_ns) if times is not None and self.is_on else ""
        if reason:
            self.request("request", f"{reason}{f': {what}' if what else ''}", dur_ns=dur_ns)

    # ---- triggers --------------------------------------------------------------------------------------------

    def exception(self, error: BaseException) -> None:
        """An exception that is to be kept with the ring; the copy is made before this returns."""
        kind = "oom" if _is_out_of_memory(error) else "exception"
        if kind in self._kinds:
            self.request(kind, f"{type(error).__name__}: {error}", wait=True)

    def dump(self, reason: str = "the program asked for it") -> str | None:
        """Make a copy now, whatever triggers there are; its path, or None where it was refused."""
        made = len(self.dumps)
        self.request("call", reason, wait=True)
        return self.dumps[-1] if len(self.dumps) > made else None

    def request(self, kind: str, reason: str, wait: bool = False, dur_ns: int = 0) -> str:
        """Make a copy, by the recorder's own thread unless wait is set. dur_ns: how long the step or request was.
        Empty, or why there will be none."""
        done = threading.Event()
        with self._lock:
            if not self.is_on or os.getpid() != self._pid:
                return "this flight recorder is closed"
            quota = self._quotas.setdefault(kind, triggers.Quota(self.most, self.rest_s))
            refusal, instead = quota.take(self._copies + 1, time.monotonic(), dur_ns)
            if refusal:
                return refusal
            self._copies += 1
            self._queue.put((kind, _clean(reason), self._copies, instead, done))
        if wait:
            done.wait(timeout=60)
        return ""

    def _work(self) -> None:
        """The recorder's thread: copies, the request file, and how far the ring reaches back."""
        while True:
            try:
                asked = self._queue.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._sample()
                reason = self._file.poll() if self._file else ""
                if reason:
                    self.request("file", reason)
                continue
            if asked is None:
                return
            kind, reason, number, instead, done = asked
            try:
                self._copy(kind, reason, number, instead)
            except (OSError, native.RecordError) as error:
                warn(f"flight_recorder: no copy of the ring was made for this reason: {reason}: {error}")
            finally:
                done.set()

    def _sample(self) -> None:
        state = _record.state()
        now_s = time.monotonic()
        self._samples.append((now_s, state["records"]))
        while len(self._samples) > 1 and self._samples[1][0] < now_s - self.last_s:
            self._samples.popleft()

    def _held_s(self) -> float | None:
        """How far the ring reaches back, when that is less than `last`; None: far enough."""
        self._sample()
        lost, now_s = _record.state()["lost"], self._samples[-1][0]
        if not lost or self._samples[0][1] >= lost:
            return None
        return now_s - max(when for when, records in self._samples if records < lost)

    def _copy(self, kind: str, reason: str, number: int, instead: int) -> None:
        held_s = self._held_s()
        if held_s is not None:
            more = self.budget * self.last_s / max(held_s, 0.1) / (1 << 20)
            reason += f". The ring holds the last {held_s:.0f} s of {self.last_s:g}: a budget of {more:.0f}M holds them"
        path, former = (os.path.join(self.folder, f"{kind}-{n}-{_who()}.tacho") for n in (number, instead))
        draft = f"{path}.part"
        _prune(self.folder, FOLDER_HOLDS * self.most - 1)
        try:
            self._recording.add_metadata("flight_trigger", json.dumps(reason, ensure_ascii=False))
            self._recording.write_thread_names()
            shutil.copyfile(self.ring, draft)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        finally:
            self._recording.add_metadata("flight_trigger", '""')  # of what comes after, this is not the reason
        self.dumps.append(path)
        if former in self.dumps:
            self.dumps.remove(former)
            with contextlib.suppress(OSError):
                os.unlink(former)
            reason += f" (in place of {os.path.basename(former)})"
        info(f"{path}: {reason}")


# ---- words, files, memory ------------------------------------------------------------------------------------


def _positive(dumps: int) -> int:
    if dumps < 1:
        raise ValueError(f"dumps={dumps}: at least one copy may be made")
    return dumps


def _who() -> str:
    host = re.sub(r"[^\w.-]", "_", platform.node())[:60] or "host"
    return f"{host}-{os.getpid()}"


def _clean(text: str) -> str:
    """One line that JSON and a terminal take as it is."""
    line = " ".join(text.replace('"', "'").replace("\\", "/").split())
    return "".join(c if c.isprintable() else "?" for c in line)[:400]


def _prune(folder: str, most: int) -> None:
    """Of the copies in a folder the newest stay, whatever process made them."""
    kinds = ("step", "request", "call", *triggers.KINDS)
    paths = [path for kind in kinds for path in glob.glob(os.path.join(glob.escape(folder), f"{kind}-*.tacho"))]
    _keep_newest(paths, most)


def _prune_rings(folder: str, most: int) -> None:
    """The same for rings of processes on this machine that were killed."""
    host = _who().rsplit("-", 1)[0]
    dead = []
    for path in glob.glob(os.path.join(glob.escape(folder), f"ring-{glob.escape(host)}-*.tacho")):
        found = re.fullmatch(r"ring-.*-(\d+)(\.\d+)?\.tacho", os.path.basename(path))
        if found and not os.path.exists(f"/proc/{found[1]}"):
            dead.append(path)
    _keep_newest(dead, most)


def _keep_newest(paths: list[str], most: int) -> None:
    def age(path: str) -> float:
        try:
            return -os.stat(path).st_mtime
        except OSError:
            return 0.0

    for path in sorted(paths, key=age)[most:]:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _is_out_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    kinds = tuple(kind for kind in (getattr(torch, "OutOfMemoryError", None),) if kind is not None)
    return isinstance(error, (MemoryError, *kinds)) or "can't allocate memory" in str(error)


_device_memory_watched = False


def _watch_device_memory() -> None:
    """torch calls back when a device has no memory left, also where the program catches that. There is no way to take
    the call back out: it looks for the recorder that runs."""
    global _device_memory_watched
    torch = sys.modules["torch"]
    if _device_memory_watched or not torch.cuda.is_initialized():
        return
    _device_memory_watched = True

    def no_memory(device: int, wanted: int, _held: int, free: int) -> None:
        recorder = current()
        if recorder is not None:
            recorder.request(
                "oom", f"device {device} has no memory: {wanted:,} bytes were asked for, {free:,} are free"
            )

    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)  # a torch without CUDA has none
    if attach is not None:
        attach(no_memory)


# ---- the public name, and the variable -----------------------------------------------------------------------


def flight_recorder(
    last: float | str = "30s",
    budget: float | str = "64M",
    on: Iterable[str] = triggers.DEFAULT,
    folder: str | os.PathLike[str] = "tachograph-flight",
    dumps: int = 4,
    rest: float | str = "10s",
) -> FlightRecorder:
    """Record the last seconds all the time, lean, in a ring on disk of at most `budget`; copy it when something goes
    wrong. Steps are found as `tachograph run` finds them.

    last: how far the ring shall reach back; a copy says so where the budget is too small for that. on: triggers:
    "step > 5x" (its median) or "step > 500ms", the same for "request" (of tachograph.serving), "exception" (that was
    not caught), "oom", "nan" (of what loss() gets), "signal" (SIGUSR2), "file" (one named dump in the folder), "http"
    (POST on loopback; address and token in http-*.json there). dumps: most copies of each kind of trigger, none sooner
    than `rest` after another of its kind; of steps and requests the longest are kept. A process that is killed leaves
    its ring, ring-*.tacho."""
    return FlightRecorder(last, budget, on, folder, dumps, rest)


def from_environment(text: str) -> FlightRecorder | None:
    """TACHOGRAPH_FLIGHT: "1", or arguments as last=30s,budget=64M,on=step > 5x|oom,folder=/var/tmp/flight. A variable
    never ends a program: what is wrong is a warning."""
    options: dict[str, Any] = {}
    try:
        for part in [] if text == "1" else text.split(","):
            name, is_given, value = part.partition("=")
            if name.strip() not in ("last", "budget", "on", "folder", "dumps", "rest") or not is_given:
                raise ValueError(f"{part!r} is not one of last=, budget=, on=, folder=, dumps=, rest=")
            options[name.strip()] = value.strip()
        if "on" in options:
            options["on"] = options["on"].split("|")
        if "dumps" in options:
            options["dumps"] = int(options["dumps"])
        return flight_recorder(**options)
    except (ValueError, RuntimeError, OSError) as error:
        warn(f"TACHOGRAPH_FLIGHT={text!r}: not recorded: {error}")
        return None
