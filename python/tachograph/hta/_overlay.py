"""A trace once more, with something added: read line by line from an export, so that memory does not grow with the file."""
from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from typing import Any, Iterable, Iterator, Optional

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
    trace, number = t.engine.trace_of(rank)
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "trace.json")
        trace.export(plain, to="chrome", rank=number, lanes="keep", **how)
        with open(plain, "rb") as f, gzip.open(path, "wb", compresslevel=1) as out:
            shutil.copyfileobj(f, out, 1 << 20)
    return path


# The exporter writes each event from the start of a line, with its members in this order; values it took over as they stood may
# have lines of their own.
_BEGINS = (b'{"ph":', b'{"cat":', b'{"name":', b'{"pid":', b'{"ts":')
_COMPLETE, _ARGS = b'{"ph":"X"', b',"args":{'


def _parts(path: str) -> Iterator[tuple[bool, bytes]]:
    """(is it an event, its text without the comma behind it); what stands before and after the events is one part each."""
    with open(path, "rb") as f:
        head = b""
        for line in f:
            head += line
            if line.startswith(b'"traceEvents"'):
                break
        yield False, head
        held = b""
        for line in f:
            ends = line.startswith(b"]")
            if held and (ends or (line.startswith(_BEGINS) and held.endswith(b"},\n"))):
                yield True, held.rstrip(b",\n")
                held = b""
            if ends:
                yield False, b"\n" + line + f.read()
                return
            held += line


def write(t: Trace, rank: int, path: str, marks: dict[int, dict[str, Any]], added: Iterable[str], bare: bool = False) -> str:
    """The trace of one rank. marks: args to add, by the event's place among all events; added: the JSON texts of further events;
    bare: complete events without a mark lose their args."""
    trace, number = t.engine.trace_of(rank)
    opener = (lambda: gzip.open(path, "wb", compresslevel=1)) if path.endswith(".gz") else (lambda: open(path, "wb"))
    with tempfile.TemporaryDirectory() as folder, opener() as out:
        plain = os.path.join(folder, "trace.json")
        trace.export(plain, to="chrome", rank=number, lanes="keep")
        place = 0
        for is_event, text in _parts(plain):
            if is_event:
                text = _changed(text, marks.get(place), bare)
                out.write(b",\n" + text if place else text)
                place += 1
                continue
            for more in added if place else ():
                out.write(b",\n" + more.encode())
            out.write(text)
    return path


def _changed(event: bytes, more: Optional[dict[str, Any]], bare: bool) -> bytes:
    if more:
        document = json.loads(event)
        document.setdefault("args", {}).update(more)
        return json.dumps(document, ensure_ascii=False).encode()
    if bare and event.startswith(_COMPLETE) and _ARGS in event:
        return event[:event.index(_ARGS)] + b"}"
    return event
