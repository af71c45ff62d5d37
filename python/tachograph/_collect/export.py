"""Chrome JSON under the name chosen by the user: written by the engine, completed with late metadata, compressed if
the name says so."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import re
import shutil
from typing import Any

from .._say import size_text

_TRACE_NAME = re.compile(rb',?\s*"traceName"\s*:\s*"(?:[^"\\]|\\.)*"\s*\}\s*$')
_TAIL = 1 << 16


def write_chrome(trace: Any, path: str, name: str, metadata: dict[str, str]) -> str:
    """Write the trace to path; the file appears only when it is complete. name: what the document calls itself. → its
    size, as text."""
    path = os.fspath(path)
    draft = f"{path}.{os.getpid()}.draft"
    try:
        trace.export(draft, to="chrome")
        finish_document(draft, metadata, name)
        if path.endswith(".gz"):
            _compress(draft)
        os.replace(draft, path)
    except OSError as error:
        if error.filename == draft:
            error.filename = path  # the name that the caller knows
        raise
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return size_text(os.path.getsize(path))


def finish_document(path: str, members: dict[str, str], name: str | None) -> None:
    """Put members (values are JSON text) and its name at the end of the document, where they prevail over earlier
    ones."""
    added = "".join(f",{json.dumps(key)}:{text}" for key, text in members.items())
    if name is not None:
        added += f',"traceName":{json.dumps(name)}'
    with builtins.open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _TAIL))
        tail = file.read()
        found = _TRACE_NAME.search(tail)
        end = found.start() if found else tail.rindex(b"}")
        file.seek(start + end)
        file.write(added.encode() + b"}\n")
        file.truncate()


def _compress(path: str) -> None:
    packed = path + ".gz"
    try:
        with builtins.open(path, "rb") as plain, gzip.open(packed, "wb", compresslevel=4) as file:
            shutil.copyfileobj(plain, file, 1 << 20)
        os.replace(packed, path)
    finally:
        if os.path.exists(packed):
            os.unlink(packed)
