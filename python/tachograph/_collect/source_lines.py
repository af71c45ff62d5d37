"""The lines of source that a recording names, kept in its file: a reader on another machine sees them, and one here
sees what ran when the file has changed since."""

from __future__ import annotations

import json
import linecache
import os
import re
import sys
from collections.abc import Iterable

_MOST_BYTES = 256 << 10  # of the member; the program's own lines come first
_MOST_FILE_BYTES = 4 << 20
_LONGEST = 400  # characters of a line
_AROUND = 3  # lines beside one of the program's own
_FRAME = re.compile(rb"(.*)\((\d+)\): ", re.DOTALL)
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_STANDARD = os.path.dirname(os.__file__) + os.sep


def source_lines(frames: Iterable[bytes]) -> str | None:
    """JSON of {file as frames name it: {line: text}}, at most 256 KiB; frames: those of _record.frame_texts().
    None: there is no line to be had."""
    wanted: dict[str, tuple[str, set[int]]] = {}
    for frame in set(frames):
        text, _, rest = frame.partition(b"\0")
        place = _FRAME.match(text)
        if place:
            name, folder = os.fsdecode(place[1]), os.fsdecode(rest.split(b"\0")[1]) if b"\0" in rest else ""
            wanted.setdefault(name, (folder + name, set()))[1].add(int(place[2]))
    kept: dict[str, dict[str, str]] = {}
    room = _MOST_BYTES
    for name, (path, lines) in sorted(wanted.items(), key=lambda item: (_is_library(item[1][0]), item[0])):
        found = _select(path, lines, 0 if _is_library(path) else _AROUND)
        cost = len(json.dumps({name: found}))
        if found and cost <= room:
            room -= cost
            kept[_clean(name)] = found
    return json.dumps(kept) if kept else None


def source_folders() -> str:
    """JSON of the folders that torch's collector cuts off the front of the paths it names."""
    import site

    folders = {os.getcwd(), *site.getsitepackages(), site.getusersitepackages(), *sys.path}
    return json.dumps(sorted(_clean(os.path.abspath(folder) + os.sep) for folder in folders if os.path.isdir(folder)))


def _select(path: str, lines: set[int], around: int) -> dict[str, str]:
    source = _read(path)
    numbers = sorted({n for line in lines for n in range(line - around, line + around + 1)})
    return {
        str(n): source[n - 1].rstrip(b"\r").decode(errors="replace")[:_LONGEST] for n in numbers if 0 < n <= len(source)
    }


def _read(path: str) -> list[bytes]:
    """The lines of a file; of what is no file, such as a cell of a notebook, those that Python keeps for tracebacks."""
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_FILE_BYTES).split(b"\n")
    except (OSError, ValueError):
        return (
            [line.rstrip("\n").encode(errors="replace") for line in linecache.getlines(path)]
            if path in linecache.cache
            else []
        )


def _is_library(path: str) -> bool:
    return any(part in path for part in _LIBRARIES) or path.startswith(_STANDARD)


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode()
