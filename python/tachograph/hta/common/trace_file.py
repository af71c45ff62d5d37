"""Trace files: which rank each is, and their documents."""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

from .._engine import Engine


def get_trace_files(trace_path: str) -> dict[int, str]:
    """The traces of a folder by rank."""
    return dict(Engine(None, trace_path).paths)


def create_rank_to_trace_dict_from_dir(trace_dir: str) -> tuple[bool, dict[int, str]]:
    """(whether there is any, the traces by rank)."""
    try:
        return True, get_trace_files(trace_dir)
    except OSError:
        return False, {}


def create_rank_to_trace_dict(file_list: list[str]) -> tuple[bool, dict[int, str]]:
    try:
        return True, dict(Engine(list(file_list), "").paths)
    except (OSError, ValueError):
        return False, {}


def _opened(path: str, mode: str) -> Any:
    packed = path.endswith(".gz")
    if mode == "rt":
        with open(path, "rb") as f:
            packed = f.read(2) == b"\x1f\x8b"
    return (gzip.open if packed else open)(path, mode, encoding="utf-8", errors="surrogateescape")


def read_trace(file_path: str) -> dict[str, Any]:
    """The document of a JSON file, packed or not."""
    with _opened(file_path, "rt") as f:
        document = json.load(f, strict=False)
    return document if isinstance(document, dict) else {"traceEvents": document}


def write_trace(trace_data: dict[str, Any], file_path: str) -> None:
    with _opened(file_path, "wt") as f:
        json.dump(trace_data, f)


def update_trace_rank(file_path: str, rank: int) -> None:
    """Writes the rank into the file."""
    document = read_trace(file_path)
    document.setdefault("distributedInfo", {})["rank"] = rank
    write_trace(document, file_path)


def normalize_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
