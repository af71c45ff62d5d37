"""Recording by our own recorder: a file, and what has to be said to torch while it is written."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import platform
import sys
import tempfile
import threading
import uuid
from typing import Any

from .. import _record
from .._say import warn
from . import kept_graphs
from .compiles import compiles
from .live_tensors import record_tensors
from .machine_use import MachineUse
from .parallel import parallel
from .source_lines import source_lines
from .thread_names import ThreadNames
from .torch_side import TorchSide
from .worker_end import at_worker_end

__all__ = ["NativeRecording", "available", "RecordError"]
RecordError = _record.RecordError
_NAMED = (
    ("record_shapes", _record.SHAPES),
    ("profile_memory", _record.MEMORY),
    ("with_stack", _record.STACKS | _record.CALLS),
    ("with_modules", _record.MODULES),
)


class NativeRecording:
    """A recording: its file is made with the object, start() begins to write, stop() closes it. One at a time in a
    process.

    conditions_at_stop: how busy the machine was is among the conditions then, and a process that is killed has none.

    path: a file, or a folder, in which it becomes main.tacho, or rank<N>.tacho in a job of several. rank: None finds
    out. In a forked child the object goes on: it then stands for the child's own file. joined: the program has run
    already, and its import system and its children are left alone; look() is called now and then instead."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: int = _record.DEFAULT,
        *,
        required: int = 0,
        memory_bytes: int = 0,
        disk_bytes: int = 0,
        keep: str = "first",
        session: int = 0,
        rank: int | None = None,
        metadata: dict[str, str] | None = None,
        joined: bool = False,
        conditions_at_stop: bool = False,
    ) -> None:
        self.features = features
        self.joined = joined
        self.rank = job_rank() if rank is None else rank
        self.path = os.fspath(path)
        if os.path.isdir(self.path):
            self.path = os.path.join(self.path, "main.tacho" if self.rank < 0 else f"rank{self.rank}.tacho")
        self.stats: dict[str, Any] | None = None
        self.tensor_records = 0  # records of what memory held, which are no events of the program
        self._metadata = {
            "host_name": json.dumps(platform.node()),
            "trace_id": json.dumps(uuid.uuid4().hex.upper()),
            "process_name": json.dumps(process_name(), ensure_ascii=False),
            **(metadata or {}),
        }
        self._written: set[str] = set()
        self._use: MachineUse | None = None
        self._conditions_at_stop = conditions_at_stop
        self._lock = threading.RLock()
        self._pid = os.getpid()
        if features & _record.CUDA:
            _refuse_beside_torch()
        self._yielded = False  # CUDA, to torch's own profiler
        release = self._release_cuda if features & _record.CUDA else None
        self._torch = TorchSide(self._torch_came, release, not joined) if features & _record.OPS else None
        self._names = ThreadNames(hooks=not joined)
        _record.open(
            self.path,
            features=features,
            required=required,
            memory_bytes=memory_bytes,
            disk_bytes=disk_bytes,
            keep=keep,
            session=session,
            rank=self.rank,
        )
        _open_ones.append(self)
        self._names.begin()
        compiles.watch(hooks=not joined)
        _ask_workers()

    def start(self) -> None:
        """Record from now on. Our own preparation comes first, so that the recording does not contain it."""
        with self._lock:
            if self.features & _record.MEMORY:
                self.tensor_records += record_tensors(_record.tensor, inputs=True)
            if self._torch:
                self._torch.enter()
            self._write(self._known())  # now: a process that is killed has it too
            if self._conditions_at_stop and self._use is None:
                self._use = MachineUse()
            _record.resume()
            self._write(self._recorded())

    def resume(self) -> None:
        """Go on after pause()."""
        with self._lock:
            if self._torch:
                self._torch.enter()
            _record.resume()

    def pause(self) -> None:
        with self._lock:
            self._wait_for_device()
            if self._torch:
                self._torch.leave()
            _record.pause()

    def look(self) -> None:
        """Where imports are not watched: has something come that is to be recorded?"""
        with self._lock:
            if self._torch:
                self._torch.look()

    def toggle(self, features: int, on: bool) -> None:
        """Switch single features off and on again while it runs."""
        _record.toggle(features, on)

    def add_cuda(self, features: int) -> str:
        """Record device work too, from now on. → why it cannot be recorded, "" where it is."""
        with self._lock:
            if self.stats is not None or self.features & _record.CUDA:
                return ""
            _refuse_beside_torch()
            _record.toggle(features, True)
            state = _record.state()
            if state["missing"] & _record.CUDA:
                _record.toggle(features, False)
                return str(state["why"])
            self.features |= features
            if self._torch:
                self._torch.watch_cuda(self._release_cuda)
            return ""

    def add_metadata(self, name: str, json_text: str) -> None:
        """A member of the document; written at once."""
        self._written.add(name)
        _record.meta(name, json_text)

    def stop(self) -> dict[str, Any]:
        """Close the file; what was recorded, as _record.state() says it. Again: the same answer."""
        with self._lock:
            if self.stats is None:
                if self in _open_ones:
                    _open_ones.remove(self)
                self._names.end()
                compiles.unwatch()
                try:
                    self.stats = self._end_file()
                except RecordError:
                    state = dict(_record.state())
                    if state["open"]:
                        raise
                    self.stats = state  # the process ends, and closed the file meanwhile: it is whole
                if self.features & _record.CUDA and not self._yielded:
                    _warn_of_device()
                if self.features & _record.CUDA and self.features & _record.MEMORY and _record.device_memory():
                    warn(f"memory of devices is not recorded: {_record.device_memory()}")
            return self.stats

    def _end_file(self) -> dict[str, Any]:
        is_ours = os.getpid() == self._pid and _record.state()["open"]
        if is_ours:
            self._wait_for_device()
            _record.pause()
        if self._torch:
            self._torch.leave()
        if is_ours:
            self._write_end()
        self._write_source()
        return dict(_record.close())

    def _wait_for_device(self) -> None:
        """What was launched in the recording belongs to it: a kernel that still runs would have no end."""
        torch = sys.modules.get("torch")
        if self.features & _record.CUDA and torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def _release_cuda(self) -> None:
        if not self._yielded:
            self._yielded = True
            _record.toggle(_record.CUDA | _record.CUDA_WAITS | _record.CUDA_MEMORY, False)
            warn(
                "torch.profiler starts to record CUDA, and CUPTI serves one profiler: ours stops recording device work"
            )

    def write_thread_names(self) -> None:
        """As they are now, for a copy of the file; stop() does it too."""
        self._names.write_all()

    def _write_end(self) -> None:
        self.write_thread_names()
        if self.features & _record.MEMORY:
            self.tensor_records += record_tensors(_record.tensor)
        if self.features & _record.CUDA:
            self._write(_cuda_members(self._yielded, bool(self.features & _record.MEMORY)))
        self._write({**self._known(), **self._recorded(), **compiles.member(), **_parallel_members()})

    def _write_source(self) -> None:
        """A forked worker has lines of its own: each process writes a member."""
        if self.features & (_record.STACKS | _record.CALLS) and _record.state()["open"]:
            lines = source_lines(_record.frame_texts())
            if lines:
                _record.meta(f"source_lines.{os.getpid()}", lines)

    def _known(self) -> dict[str, str]:
        """Members of the document that do not depend on what can be recorded. Facts that are read from the machine are
        read once."""
        members = dict(self._metadata)
        is_early = self._conditions_at_stop and self._use is None
        for name, look in (("distributedInfo", distributed_info), ("conditions", self._conditions)):
            value = look() if name not in self._written and not (is_early and name == "conditions") else None
            if value:
                members.setdefault(name, json.dumps(value, default=str))
        return members

    def _conditions(self) -> dict[str, Any]:
        known = conditions()
        return {**known, **self._use.since()} if known and self._use else known

    def _recorded(self) -> dict[str, str]:
        """Members that say what is recorded."""
        recorded = self.features & ~_record.state()["missing"]
        return {name: self._metadata.get(name, "1") for name, features in _NAMED if recorded & features}

    def _write(self, members: dict[str, str]) -> None:
        """Those that are not yet in the file."""
        for name in members.keys() - self._written:
            self._written.add(name)
            _record.meta(name, members[name])

    def _torch_came(self) -> None:
        """torch has been imported while we record: what needs it can begin."""
        with self._lock:
            if self.stats is None and _record.state()["running"]:
                _record.resume()

    def __enter__(self) -> NativeRecording:
        self.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.stop()


# ---- the process -------------------------------------------------------------------------------------------

_open_ones: list[NativeRecording] = []


def _warn_of_device() -> None:
    source = _record.cuda()
    if source["taken"]:
        warn("another profiler took CUPTI over during the recording: device work from then on is missing")
    if source["reset"]:
        warn("a device was reset, or a context destroyed, during the recording: the last device work before is missing")
    if "MEMORY" in source["refused"]:  # asked for by name; without the others little is missing
        warn(f"CUPTI refused some kinds of record, which are missing: {source['refused']}")
    kept_graphs.warn_of_loss()


def _cuda_members(yielded: bool, with_memory: bool) -> dict[str, str]:
    """What our recorder of CUDA did, and the versions as torch's collector writes them."""
    own = {**_record.cuda(), "yielded": yielded}
    kept = kept_graphs.kept()
    if kept is not None:
        own["kept_graphs"] = kept
    if with_memory:
        own["memory"] = _record.device_memory() or "recorded"
    members = {"cudaRecorder": own, "cupti_version": own["version"], "cuda_driver_version": own["driver"]}
    torch = sys.modules.get("torch")
    major, _, minor = str(torch.version.cuda if torch is not None else "").partition(".")
    if major.isdigit() and minor.isdigit():  # "13.0", which CUDA's runtime calls 13000
        members["cuda_runtime_version"] = int(major) * 1000 + int(minor) * 10
    return {name: json.dumps(value) for name, value in members.items()}


def _parallel_members() -> dict[str, str]:
    found = parallel()
    return {"parallel": json.dumps(found)} if found else {}


def _refuse_beside_torch() -> None:
    """Torch's collector gets no record any more once another has registered its buffers with CUPTI."""
    torch = sys.modules.get("torch")
    if torch is not None and torch._C._autograd._profiler_enabled():
        raise RuntimeError("torch.profiler is recording on this thread, and CUPTI serves one profiler: stop it first")


@atexit.register
def _close_at_exit() -> None:
    for recording in list(_open_ones):
        with contextlib.suppress(RecordError):  # closed already, below us; its file is whole
            recording.stop()


_workers_asked = False


def _ask_workers() -> None:
    global _workers_asked
    if not _workers_asked and not all(recording.joined for recording in _open_ones):
        _workers_asked = at_worker_end(_close_at_exit, lambda close: close())


def _after_fork() -> None:
    for recording in _open_ones:
        recording._lock = threading.RLock()  # its holder may not exist in this process


os.register_at_fork(before=_ask_workers, after_in_child=_after_fork)


def distributed_info() -> dict[str, Any] | None:
    """The job this process is a rank of, None outside of one."""
    from .metadata import distributed_info as info

    return info()


def conditions() -> dict[str, Any]:
    from .metadata import conditions as found

    return found()


def process_name() -> str:
    """What Kineto calls this process: the first word of its command line, without its folder. A title that the program
    set is cut at the first space, a path is not."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            title = file.read().split(b"\0")[0].decode(errors="replace")
    except OSError:
        title = sys.orig_argv[0]
    words = [title] if os.path.exists(title) else title.split()
    name = os.path.basename(words[0]) if words else ""
    return name.replace("\\", "/").replace('"', "'") or "python"


def job_rank() -> int:
    """The rank torch.distributed says, or the launcher; -1 = none."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    try:
        return int(os.environ["RANK"])
    except (KeyError, ValueError):
        return -1


# ---- can it be had? ----------------------------------------------------------------------------------------


def available() -> tuple[bool, str]:
    """Can this Python and this torch be recorded by our own recorder? If not: the reason, in one sentence."""
    if "t" in sys.abiflags:
        return False, "this Python is built without the GIL, which the recorder of Python code needs"
    if "torch" not in sys.modules:
        return True, ""
    if _record.state()["open"]:
        return True, ""  # it has been tried
    return _try_hook()


@functools.cache
def _try_hook() -> tuple[bool, str]:
    """Find torch's hook, calibrate and prove it, as opening a recording does: some ms, once."""
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        try:
            _record.open(os.path.join(folder, "try.tacho"), features=_record.OPS, required=_record.OPS)
            _record.close()
        except RecordError as e:
            return False, str(e)
    return True, ""
