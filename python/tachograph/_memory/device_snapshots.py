"""Snapshots of CUDA's caching allocator: one now, and one when a device is out of memory."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

from .. import Trace, open as open_trace
from .._measure.device import torch_module
from .._say import log

NO_DEVICE = (
    "a memory snapshot is of CUDA's caching allocator, and torch sees no CUDA device here; allocations on the CPU are "
    "recorded by tachograph.profile(profile_memory=True) or tachograph.memory.history()"
)


def _cuda() -> Any:
    torch = torch_module()
    if not torch.cuda.is_available():
        raise RuntimeError(NO_DEVICE)
    return torch


def memory_snapshot(path: str | os.PathLike[str] | None = None) -> Trace:
    """The state of CUDA's caching allocator, with its history where torch.cuda.memory._record_memory_history is on, as
    an open trace: ask("memory_state"), ask("segments"), ask("memory_history").

    path: where the pickle stays, in the layout of torch.cuda.memory._dump_snapshot; None: nowhere.
    Raises RuntimeError without a CUDA device, OSError where the file cannot be written."""
    state = _cuda().cuda.memory._snapshot()
    with contextlib.ExitStack() as stack:
        if path is None:
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="tachograph-")), "now.pickle")
        with open(path, "wb") as file:
            pickle.dump(state, file)
        return open_trace(path)


# ---- out of memory -----------------------------------------------------------------------------------------


class _TooLarge(Exception):
    pass


class _Bounded:
    """A file that takes so many bytes."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise _TooLarge
        return self._file.write(data)


class _Target:
    def __init__(self, path: str, most_bytes: int) -> None:
        self.path, self.most_bytes = path, most_bytes
        self.lock = threading.Lock()
        self.is_done = False

    def take(self, device: int, asked: int) -> None:
        """Never raises: the program is about to get its own error."""
        with self.lock:
            if self.is_done:
                return
            self.is_done = True
        try:
            _write(self.path, self.most_bytes)
        except _TooLarge:
            said = f"no snapshot: it is larger than {self.most_bytes:,} bytes (most_bytes=)"
        except Exception as error:
            said = f"no snapshot: {error}"
        else:
            said = f"snapshot in {self.path}; see tachograph report {self.path}"
        log.warning("device %d has no %s bytes; %s", device, f"{asked:,}", said)
        _note({"path": self.path, "device": device, "asked_bytes": asked, "outcome": said})


def _write(path: str, most_bytes: int) -> None:
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "wb") as file:
            pickle.dump(torch_module().cuda.memory._snapshot(), _Bounded(file, most_bytes))
        os.replace(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def _note(what: dict[str, Any]) -> None:
    """Into the recording that is open, if one is."""
    with contextlib.suppress(Exception):
        from .. import _record

        if _record.state()["open"]:
            _record.meta("oomSnapshot", json.dumps(what))


_target: _Target | None = None
_is_attached = False


def _observe(device: int, asked: int, *_: Any) -> None:
    target = _target
    if target is not None:
        target.take(device, asked)


@contextlib.contextmanager
def snapshot_at_oom(
    path: str | os.PathLike[str], *, max_entries: int = 100_000, most_bytes: int = 512 << 20
) -> Iterator[None]:
    """While it is open, the first allocation that a CUDA device has no room for leaves a snapshot at path.

    with tg.memory.snapshot_at_oom("oom.pickle"):
        train()

    max_entries: of the allocator's history before it, with Python stacks (0 = none; a history that is on already stays
    as it is); most_bytes: a larger snapshot is
    left out. The program gets its own error as ever. Raises RuntimeError without a CUDA device."""
    global _target, _is_attached
    torch = _cuda()
    if _target is not None:
        raise RuntimeError(f"a snapshot at {_target.path} is being waited for already")
    if not _is_attached:  # torch has no way to take an observer off again: without a target ours does nothing
        torch._C._cuda_attach_out_of_memory_observer(_observe)
        _is_attached = True
    is_recorded = getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)()  # by the program: it goes on as it is
    ours = max_entries > 0 and not is_recorded
    if ours:
        torch.cuda.memory._record_memory_history(max_entries=max_entries, stacks="python")
    _target = _Target(os.fspath(path), most_bytes)
    try:
        yield
    finally:
        _target = None
        if ours:
            torch.cuda.memory._record_memory_history(enabled=None)
