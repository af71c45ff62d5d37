"""The files behind a TraceAnalysis: which rank each is, and questions asked of them rank by rank."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import tempfile
import weakref
from collections.abc import Collection
from typing import Any

import tachograph

ENDINGS = (".gz", ".json", ".zst", ".tacho")
NO_DATA = 3  # status of an error that says: this trace lacks what the question needs


LARGE = 100_000  # rows of an answer after which memory is given back
BY_EVENT = {
    "rows",
    "events",
    "queue",
    "copy_bandwidth",
    "launch_stats",
    "kernel_annotations",
    "sequences",
    "critical_path",
    "op_kernels",
}


def release_memory() -> None:
    """Frames come and go; what the allocator keeps of them until the next large answer would add up to as much as the
    trace itself."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # a C library without malloc_trim
        ctypes.CDLL(None).malloc_trim(0)


def files_of(trace_dir: str) -> list[str]:
    """What a folder holds that may be a trace, by name."""
    if not os.path.isdir(trace_dir):
        raise FileNotFoundError(
            f"{trace_dir} is not a directory: trace_dir= names the folder of the traces, trace_files= the files themselves"
        )
    found = sorted(os.path.join(trace_dir, name) for name in os.listdir(trace_dir) if name.endswith(ENDINGS))
    if not found:
        raise FileNotFoundError(f"{trace_dir} holds no trace: no file in it ends in {', '.join(ENDINGS)}")
    return found


def _placed(name: str, folder: str) -> str:
    """A name is looked for in the folder, unless it says the folder itself already."""
    inside = os.path.abspath(name).startswith(os.path.join(os.path.abspath(folder), ""))
    return name if inside and not os.path.isabs(name) and os.path.exists(name) else os.path.join(folder, name)


def _files_in(trace: tachograph.Trace) -> tachograph.Table[tachograph.OverviewRow]:
    """One row a rank: its number and the name of its file."""
    return trace.ask("overview", where='quantity = "file"', limit="all")


class Engine:
    """Ranks by number, each with the open trace it is in. Files are opened together, so that they share one beginning
    of time."""

    def __init__(self, files: Any | None, trace_dir: str):
        self.paths: dict[int, str] = {}
        self._homes: dict[int, tuple[tachograph.Trace, int]] = {}
        self._was_large = False  # an answer since memory was given back
        if isinstance(files, (str, os.PathLike)):
            files = [files]
        if files is None:
            self._open_together(files_of(trace_dir), None)
        else:
            pairs: list[Any] = list(files.items()) if isinstance(files, dict) else [(None, name) for name in files]
            if not pairs:
                raise ValueError("trace_files names no file")
            paths = [_placed(os.fspath(name), trace_dir or "") for _, name in pairs]
            for path in paths:
                if not os.path.exists(path):
                    raise FileNotFoundError(f"{path}: no such file")
            self._open_together(paths, [rank for rank, _ in pairs] if isinstance(files, dict) else None)

    @property
    def ranks(self) -> list[int]:
        return sorted(self._homes)

    def _open_together(self, paths: list[str], numbers: list[int] | None) -> None:
        if len(paths) == 1:
            trace = tachograph.open(paths[0])
        else:
            folder = tempfile.mkdtemp()
            weakref.finalize(
                self, shutil.rmtree, folder, True
            )  # ranks of a large folder are read again when they are asked about
            for i, path in enumerate(paths):
                os.symlink(os.path.abspath(path), os.path.join(folder, "%06d-%s" % (i, os.path.basename(path))))
            trace = tachograph.open(folder)
        own: list[Any] = [(row["rank"], row["text"]) for row in _files_in(trace)]
        own_numbers = [rank for rank, _ in own]
        if len(paths) > 1 and len(set(own_numbers)) < len(own_numbers):
            return self._open_apart(paths, numbers)
        for rank, name in own:
            at = int(os.path.basename(name)[:6]) if len(paths) > 1 else 0
            number = numbers[at] if numbers else rank
            self._homes[number], self.paths[number] = (trace, rank), paths[at]
        return None

    def _open_apart(self, paths: list[str], numbers: list[int] | None) -> None:
        """Two files say they are the same rank. Given names distinguish them; else the later one takes the
        place of the earlier."""
        for at, path in enumerate(paths):
            trace = tachograph.open(path)
            rank: Any = next(row["rank"] for row in _files_in(trace))
            number = numbers[at] if numbers else rank
            self._homes[number], self.paths[number] = (trace, rank), path

    def trace_of(self, rank: int) -> tuple[tachograph.Trace, int]:
        """The open trace, and the number it knows this rank by."""
        if rank not in self._homes:
            raise ValueError(f"rank {rank} is not among the traces; there are {', '.join(map(str, self.ranks))}")
        return self._homes[rank]

    def ask(self, question: str, rank: int, **args: Any) -> Any:
        """The answer for one rank; None when the trace lacks what it needs."""
        trace, number = self.trace_of(rank)
        if self._was_large and question in BY_EVENT and args.get("by") not in ("rank", "step", "name"):
            release_memory()
            self._was_large = False
        try:
            table = trace.ask(question, rank=number, **args)
            self._was_large |= len(table) > LARGE
            return table
        except tachograph.TachographError as error:
            if error.status == NO_DATA:
                return None
            raise

    def together(self) -> tachograph.Trace | None:
        """The one open trace of all ranks; None when files had to be opened apart."""
        traces = {id(trace): trace for trace, _ in self._homes.values()}
        return next(iter(traces.values())) if len(traces) == 1 else None

    def outer(self, number: int) -> int:
        """Our number of a rank for the one the trace has."""
        return next((rank for rank, (_, own) in self._homes.items() if own == number), number)

    def selected_ranks(self, ranks: Collection[int] | None) -> list[int]:
        """The ranks asked for; by default rank 0, or the lowest there is."""
        if ranks is None or (hasattr(ranks, "__len__") and len(ranks) == 0):
            return [0 if 0 in self._homes else self.ranks[0]]
        chosen = list(ranks)
        for rank in chosen:
            self.trace_of(rank)
        return chosen
