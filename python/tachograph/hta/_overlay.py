"""A trace once more, with something added: read line by line from an export, so that memory does not grow with the
file."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import tachograph

from ._engine import NO_DATA
from .common.trace import Trace


def us(ns: int) -> str:
    """A time as trace files write it."""
    whole, rest = divmod(int(ns), 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)


def with_suffix(path: str, suffix: str) -> str:
    """Beside the file: rank-0.json.gz becomes rank-0<suffix>.json.gz."""
    folder, name = os.path.split(path)
    stem, _, ending = name.partition(".json")
    return os.path.join(folder, f"{stem}{suffix}.json{ending if ending in ('', '.gz') else '.gz'}")


def beside(folder: str, prefix: str, path: str) -> str:
    """In the folder: <prefix> and the file's name, packed."""
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(path)
    return os.path.join(folder, prefix + (name if name.endswith(".gz") else f"{name}.gz"))


def packed_export(t: Trace, rank: int, path: str, **how: Any) -> str:
    """The trace of one rank as the engine writes it for Chrome, packed."""
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        _export(t, rank, plain, **how)
        with open(plain, "rb") as f, gzip.open(path, "wb", compresslevel=1) as out:
            shutil.copyfileobj(f, out, 1 << 20)
    return path


def _export(t: Trace, rank: int, path: str, **how: Any) -> str:
    trace, number = t.engine.trace_of(rank)
    trace.export(path, to="chrome", rank=number, lanes="keep", **how)
    return path


def write_counted(t: Trace, rank: int, path: str, words: list[str]) -> str:
    """The trace of one rank with the counters that the words ("queue", "memory") name behind its events, those that it
    has data for."""
    names = {"queue": "queue", "memory": "bandwidth"}
    wishes = [{"counters": "all"}] * (len(words) == 2) + [{"counters": names[word]} for word in words] + [{}]
    write = packed_export if path.endswith(".gz") else _export
    for counters in wishes:
        try:
            return write(t, rank, path, **counters)
        except tachograph.TachographError as error:
            if error.status != NO_DATA or not counters:
                raise
    return path


# The exporter writes each event from the start of a line, with its members in this order; values it took over as they
# stood may have lines of their own.
_BEGINS = (b'{"ph":', b'{"cat":', b'{"name":', b'{"pid":', b'{"ts":')
_ENDS = (b"]\n", b"],\n", b"]")
_COMPLETE, _ARGS = b'{"ph":"X"', b',"args":{'


def _events(lines: Iterator[bytes], end: list[bytes]) -> Iterator[bytes]:
    """The text of each event with the comma and line end behind it; what follows the last is put into end."""
    held = b""
    for line in lines:
        if held:
            if line.startswith(_BEGINS) and held.endswith(b"},\n"):
                yield held
                held = line
                continue
            if line in _ENDS and held.endswith(b"}\n"):
                yield held
                held = b""
        if line in _ENDS and not held:
            end.append(line)
            end.extend(lines)
            return
        held += line


@contextlib.contextmanager
def _rewriting(t: Trace, rank: int, path: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """(the trace of one rank, read up to its first event; the file that is written, with all that stands before it)."""
    open_out = functools.partial(gzip.open, compresslevel=1) if path.endswith(".gz") else open
    with (
        tempfile.TemporaryDirectory() as folder,
        open_out(path, "wb") as unbuffered,
        io.BufferedWriter(unbuffered, 1 << 20) as out,
    ):
        plain = _export(t, rank, os.path.join(folder, "trace.json"))
        with open(plain, "rb") as lines:
            for line in lines:
                out.write(line)
                if line.startswith(b'"traceEvents"'):
                    break
            yield lines, out


def write_with(t: Trace, rank: int, path: str, added: Iterable[str]) -> str:
    """The trace of one rank with these events, as JSON texts, before its own."""
    with _rewriting(t, rank, path) as (lines, out):
        for text in added:
            out.write(text.encode() + b",\n")
        shutil.copyfileobj(lines, out, 1 << 20)
    return path


def write_marked(t: Trace, rank: int, path: str, marks: dict[int, dict[str, Any]], bare: bool) -> str:
    """The trace of one rank. marks: args to add, by the event's place among all events; bare: complete events without a
    mark lose their args."""
    end: list[bytes] = []
    with _rewriting(t, rank, path) as (lines, out):
        events = _marked(_events(iter(lines), end), marks, bare)
        while text := b"".join(itertools.islice(events, 1024)):
            out.write(text)
        out.writelines(end)
    return path


def _marked(events: Iterator[bytes], marks: dict[int, dict[str, Any]], bare: bool) -> Iterator[bytes]:
    for place, event in enumerate(events):
        if place in marks:
            yield _changed(event, marks[place])
        elif bare and event.startswith(_COMPLETE) and (at := event.find(_ARGS)) >= 0:
            yield event[:at] + (b"},\n" if event.endswith(b",\n") else b"}\n")
        else:
            yield event


def _changed(event: bytes, more: dict[str, Any]) -> bytes:
    text = event.rstrip(b",\n")
    document = json.loads(text)
    document.setdefault("args", {}).update(more)
    return json.dumps(document, ensure_ascii=False).encode() + event[len(text) :]
