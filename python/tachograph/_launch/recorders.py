"""What records inside the program: our own recorder, or torch's collector where ours cannot."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .._collect.machine_use import core_wait_ns
from .batches import Batches
from .waits import Waits

PROBE_BYTES = 64 << 20
FEATURES = {"lean": "LEAN", "default": "DEFAULT", "deep": "DEEP"}


class Recorder:
    """One file being recorded. name: of the recorder; phase: which part of the program it is."""

    name = "nothing"

    def __init__(self, path: str, phase: str):
        self.path, self.phase = path, phase

    def step_begin(self, number: int) -> None: ...
    def step_end(self) -> None: ...
    def forked(self) -> None: ...
    def pause(self, rest: bool) -> None: ...
    def look(self) -> None:
        """Called now and then where imports of the program are not watched."""

    def forget(self) -> None:
        """In a forked child that is not recorded: take everything off."""

    def disk_bytes(self) -> int:
        return 0

    why = ""  # after close(): what was not to be had, or why the disk took no more

    def close(self) -> tuple[int, int]:
        """(records lost, records written)"""
        return 0, 0

    def left_behind(self) -> list[str]:
        """What of the recorder is still installed in the program after close(); off means off, so nothing."""
        return []


class NativeRecorder(Recorder):
    name = "native"

    def __init__(
        self, path: str, phase: str, settings: dict, rank: int, say: Callable[[str], None], cuda: bool = False
    ):
        from tachograph import _record
        from tachograph._collect import native

        super().__init__(path, phase)
        self._record, self._say, self.has_cuda = _record, say, cuda
        self._joined = settings.get("attached", False)
        self._followed = False  # a thread that steps
        features = getattr(_record, FEATURES[settings["preset"]])
        self._cuda = _record.CUDA | _record.CUDA_WAITS | (_record.CUDA_MEMORY if features & _record.MEMORY else 0)
        if cuda:
            features |= self._cuda
        self._recording = native.NativeRecording(
            path,
            features=features,
            required=_record.CUDA if cuda else 0,
            memory_bytes=settings["memory"],
            disk_bytes=settings["bytes"],
            keep=settings.get("keep", "first" if phase == "window" else "last"),
            session=settings["session"],
            rank=rank,
            joined=self._joined,
        )
        self._recording.start()
        self._follow_thread()
        self._marks = (Waits(_record), Batches(_record)) if settings["preset"] != "lean" else ()
        host_only = self._joined or settings.get("host_only", False)
        if not cuda and not host_only and phase != "probe":  # torch keeps what it is to call; a probe is of the host
            self._await_cuda(sys.modules["torch"])

    def _await_cuda(self, torch: Any) -> None:
        """The program must not be brought to its GPU by us: torch calls us when the program has come there, before any
        work."""
        from tachograph._collect.backend import records_cuda

        if torch.version.cuda and records_cuda() and hasattr(torch.cuda, "_lazy_call"):
            torch.cuda._lazy_call(self._cuda_came)

    def _cuda_came(self) -> None:
        if os.environ.get("LOCAL_RANK", "0") != "0" and sys.modules["torch"].cuda.device_count() > 1:
            return  # its device is not chosen yet, and the proof would go to the first one
        try:
            reason = self._recording.add_cuda(self._cuda)
        except Exception as error:  # torch would end the program with it
            reason = str(error)
        self.has_cuda = not reason
        if reason:
            self._say(f"note device work is not recorded: {reason}")

    def _follow_thread(self) -> None:
        """The conditions of the recording are those of the calling thread."""
        self._pid, self._thread = os.getpid(), threading.get_native_id()
        self._since_ns, self._waited_ns = time.perf_counter_ns(), core_wait_ns()

    def step_begin(self, number: int) -> None:
        self._record.step_begin(f"ProfilerStep#{number}")
        if self._joined and not self._followed:
            self._followed = True
            self._follow_thread()
            self._record.sample_here()

    def step_end(self) -> None:
        self._record.step_end()

    def forked(self) -> None:
        self._record.sample_here()

    def pause(self, rest: bool) -> None:
        if rest:
            self._recording.pause()
        else:
            self._recording.resume()

    def look(self) -> None:
        self._recording.look()

    def forget(self) -> None:
        for marks in self._marks:
            marks.remove()
        self._recording.stop()

    def disk_bytes(self) -> int:
        return self._record.state()["disk_bytes"]

    def close(self) -> tuple[int, int]:
        for marks in self._marks:
            marks.remove()
        self._record_core_wait()
        self._recording.pause()
        self._record.step_begin(
            ""
        )  # takes the place of a step that is still open: what the program's end cut off is no step
        stats = self._recording.stop()
        self.why = stats["why"]
        return stats["lost"], stats["records"]

    def _record_core_wait(self) -> None:
        """How busy others kept the machine is a condition of what was recorded."""
        before, now = self._waited_ns, core_wait_ns(self._thread)
        if before is not None and now is not None and self._pid == os.getpid():
            self._recording.add_metadata(
                "core_wait_pct", str(round(100 * (now - before) / max(time.perf_counter_ns() - self._since_ns, 1)))
            )

    def left_behind(self) -> list[str]:
        from tachograph._collect import backend

        others = {"clean"} if backend.current() is None else {"clean", "labels"}  # those of the program's own window
        return [what for what, is_off in self._record.self_check().items() if not is_off and what not in others]


class KinetoRecorder(Recorder):
    """torch.profiler, only for the window: it has no budget, so it cannot watch a program from start to end."""

    name = "kineto"

    def __init__(self, path: str, phase: str, settings: dict):
        super().__init__(path.replace(".tacho", ".json"), phase)
        from torch.profiler.profiler import (
            ProfilerActivity,
            profile,
        )  # torch's own, whatever the program put into torch.profiler

        activities = [ProfilerActivity.CPU]
        torch = sys.modules["torch"]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        lean, deep = settings["preset"] == "lean", settings["preset"] == "deep"
        self._profile = profile(activities=activities, record_shapes=not lean, with_stack=not lean, profile_memory=deep)
        self._profile.start()
        self._pid = os.getpid()
        self._step: Any | None = None

    def step_begin(self, number: int) -> None:
        from torch.profiler import record_function

        self._step = record_function(f"ProfilerStep#{number}")
        self._step.__enter__()

    def step_end(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def close(self) -> tuple[int, int]:
        if os.getpid() != self._pid:
            return 0, 0
        self.step_end()
        self._profile.stop()
        self._profile.export_chrome_trace(self.path)
        return 0, 0


class Probe(NativeRecorder):
    """Records into nothing, to see what that adds to a step: its file has no name any more once it is open."""

    def __init__(self, path: str, settings: dict, rank: int, say: Callable[[str], None]):
        super().__init__(path, "probe", {**settings, "bytes": PROBE_BYTES}, rank, say)
        os.unlink(path)

    def close(self) -> tuple[int, int]:
        counts = super().close()
        with contextlib.suppress(FileNotFoundError):  # in a forked child, which recorded until it came here
            os.unlink(f"{os.path.splitext(self.path)[0]}.{os.getpid()}.tacho")
        return counts


def can_probe(recorder: Recorder) -> bool:
    """Can recording be switched on and off between steps? CUPTI, which records devices, must not be."""
    return isinstance(recorder, NativeRecorder) and not recorder.has_cuda


def open_recorder(path: str, phase: str, settings: dict, rank: int, say: Callable[[str], None]) -> Recorder:
    try:
        from tachograph._collect import native
        from tachograph._collect.backend import records_cuda

        usable, reason = native.available()
    except ImportError as error:
        usable, reason = False, f"this build has no recorder ({error})"
    # Before the window the program may not have come to its GPU yet, and must not be brought there by us.
    cuda = usable and phase == "window" and sys.modules["torch"].cuda.is_initialized()
    if cuda and settings.get("host_only"):
        say("note device work is not recorded: nsys records it")
        cuda = False
    if cuda and not records_cuda():
        usable, reason = False, "the program works on a GPU"
    if usable:
        try:
            return NativeRecorder(path, phase, settings, rank, say, cuda)
        except RuntimeError as error:
            if not cuda:
                raise
            reason = str(error)
    if settings.get("attached"):  # torch's would see only our thread, and write on the program's standard error
        raise RuntimeError(f"the recorder cannot be used in this program: {reason}")
    say(f"note recording with torch's own collector: {reason}")
    return Recorder(path, phase) if phase == "start" else KinetoRecorder(path, phase, settings)
