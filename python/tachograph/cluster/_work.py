"""What runs where the ranks lie: find them, summarize one, merge some. Each returns what it made, and what could not
be read instead; an engine calls them."""

from __future__ import annotations

import glob
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import TachographError, open_ranks

SUFFIXES = (".json", ".gz", ".zst", ".tacho", ".pickle", ".pkl", ".tsum")


class Missing(NamedTuple):
    """A rank, or a path of ranks, that could not be read."""

    path: str
    why: str


Rank = tuple[str, ...]  # its files: one, or those of a recording that was cut short
Made = tuple[bytes | None, Missing | None]  # a .tsum file, or why there is none


# ---- files: plain paths, and URLs through fsspec ------------------------------------------------


class Disk:
    """What this machine calls a path."""

    def matching(self, pattern: str) -> list[str]:
        return glob.glob(pattern)

    def below(self, folder: str, pattern: str) -> list[str]:
        return glob.glob(f"{glob.escape(folder.rstrip('/'))}/{pattern}")

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


class Store:
    """What fsspec reads by URL."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError("fsspec is not installed, which reads URLs: pip install fsspec") from None
        self.system: Any = url_to_fs(url)[0]

    def matching(self, pattern: str) -> list[str]:
        return [self.system.unstrip_protocol(name) for name in self.system.glob(pattern)]

    def below(self, folder: str, pattern: str) -> list[str]:
        return self.matching(f"{folder.rstrip('/')}/{pattern}")

    def is_folder(self, path: str) -> bool:
        return bool(self.system.isdir(path))

    def exists(self, path: str) -> bool:
        return bool(self.system.exists(path))

    def fetch(self, path: str, folder: str) -> str:
        here = os.path.join(folder, path.rpartition("/")[2])
        self.system.get_file(self.system._strip_protocol(path), here)
        return here


def files_of(path: str) -> Disk | Store:
    return Store(path) if "://" in path else Disk()


def sentence_of(error: BaseException) -> str:
    """What went wrong, on one line."""
    if isinstance(error, ImportError):
        return f"{' '.join(str(error).split())} (on {socket.gethostname()})"
    return " ".join(str(error).split()) or type(error).__name__


# ---- which ranks there are ---------------------------------------------------------------------


def _traces_in(files: Disk | Store, folder: str) -> list[str]:
    """The traces of a folder; of one without any, those of the folders in it."""
    here = [path for path in files.below(folder, "*") if path.endswith(SUFFIXES)]
    return here or [path for path in files.below(folder, "*/*") if path.endswith(SUFFIXES)]


def _traces_of(path: str) -> list[str]:
    files = files_of(path)
    if not any(letter in path for letter in "*?[") or files.exists(path):
        return _traces_in(files, path) if files.is_folder(path) else [path]
    found = []
    for match in files.matching(path):
        if match.endswith(SUFFIXES):
            found.append(match)
        elif files.is_folder(match):
            found += _traces_in(files, match)
    return found


def list_ranks(paths: list[str]) -> tuple[list[Rank], Missing | None]:
    """The ranks in order of the paths. Files in a folder raw/ are one recording that was cut short."""
    units: dict[str, list[str]] = {}
    for path in paths:
        try:
            found = _traces_of(path)
        except Exception as error:  # fsspec's file systems raise what their libraries do
            return [], Missing(path, sentence_of(error))
        for file in sorted(found):
            folder = file.rpartition("/")[0]
            units.setdefault(folder if folder.endswith("/raw") else file, []).append(file)
    return [tuple(files) for files in units.values()], None


# ---- a summary of one rank, and of some --------------------------------------------------------


@contextmanager
def _here(rank: Rank, folder: str) -> Iterator[str]:
    """The path that opens the rank: where it lies, or a copy that goes again."""
    files = files_of(rank[0])
    if isinstance(files, Disk):
        yield os.path.dirname(rank[0]) if len(rank) > 1 else rank[0]
        return
    copies = [files.fetch(path, folder) for path in rank]
    yield os.path.dirname(copies[0]) if len(copies) > 1 else copies[0]
    for copy in copies:
        os.unlink(copy)


def _summary_of(paths: Iterable[str], folder: str) -> bytes:
    """What may go well elsewhere or later, a full disk or a connection, is an OSError that names this machine."""
    made = os.path.join(folder, "made.tsum")
    try:
        with open_ranks(*paths, threads=1, progress=False) as ranks:
            ranks.save(made)
        with open(made, "rb") as file:
            return file.read()
    except TachographError as error:
        if error.code not in ("IO", "NO_ROOM"):
            raise
        raise OSError(f"{socket.gethostname()}: {error}") from error


def summarize_rank(place: int, rank: Rank) -> Made:
    """place: of the rank among all; ranks with one number stay in that order."""
    with tempfile.TemporaryDirectory(prefix=f"tachograph-{place:06d}-") as folder:
        try:
            with _here(rank, folder) as path:
                return _summary_of([path], folder), None
        except FileNotFoundError:
            return None, Missing(rank[0], "it is not there any more")
        except (TachographError, ImportError) as error:
            return None, Missing(rank[0], sentence_of(error))


def merge_summaries(*parts: bytes) -> Made:
    """Summaries of several ranks into one."""
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        paths = [os.path.join(folder, f"{i:06d}.tsum") for i in range(len(parts))]
        for path, part in zip(paths, parts):
            with open(path, "wb") as file:
                file.write(part)
        return _summary_of(paths, folder), None
