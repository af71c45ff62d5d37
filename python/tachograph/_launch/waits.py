"""Marks what keeps a program waiting without an operator: files forced to disk, checkpoints, files read again, the
collector, another thread. While a recording runs a few functions are replaced, in their modules or classes, by ones
that do the same inside a range; afterwards they are what they were."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .._imports import put_back

# module, function or class.method. Modules the program has not imported are not imported for this.
WAITS = (
    ("os", "fsync"),
    ("os", "fdatasync"),
    ("torch", "save"),
    ("torch", "load"),
    ("numpy", "load"),
    ("numpy", "loadtxt"),
    ("numpy", "genfromtxt"),
    ("json", "load"),
    ("pickle", "load"),
    ("pickle", "dump"),
    ("pandas", "read_csv"),
    ("pandas", "read_parquet"),
    ("gc", "collect"),
    ("queue", "Queue.get"),
    ("threading", "Condition.wait"),
    ("concurrent.futures", "Future.result"),
    ("builtins", "open"),
    ("io", "open"),
)
OPENS = "builtins.open"


def _ranged(original: Callable[..., Any], name: str, record: Any) -> Callable[..., Any]:
    label = record.record_function  # takes the Python stack along, as operators do

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        with label(name):
            return original(*args, **kwargs)

    return recorded


def _reading(original: Callable[..., Any], record: Any) -> Callable[..., Any]:
    """Files that are opened only to be read: writes have marks of their own. pathlib opens by the name in io (3.10
    does not). A number is of something open already: the pipe of a child, a socket."""
    label = record.record_function

    @functools.wraps(original)
    def recorded(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, int) or not isinstance(mode, str) or any(c in mode for c in "wax+"):
            return original(file, mode, *args, **kwargs)
        with label(OPENS):
            return original(file, mode, *args, **kwargs)

    return recorded


class Waits:
    def __init__(self, record: Any):
        self._known = set(sys.modules)
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        made: dict[int, Any] = {}  # one function under two names stays one: io.open is open
        for module_name, name in WAITS:
            place, _, function = name.rpartition(".")
            module = sys.modules.get(module_name)
            module = getattr(module, place, None) if place else module
            original = getattr(module, function, None)
            if original is None:
                continue
            if id(original) not in made:
                made[id(original)] = (
                    _reading(original, record) if name == "open" else _ranged(original, f"{module_name}.{name}", record)
                )
                made[id(original)].__module__ = module_name  # where pickle finds it: open is of _io, os.fsync of posix
            ours = made[id(original)]
            setattr(module, function, ours)
            self._replaced.append((module, function, original, ours))

    def remove(self) -> None:
        """What the program itself has put in the place of ours since then stays."""
        originals = []
        while self._replaced:
            module, name, original, ours = self._replaced.pop()
            originals.append((ours, original))
            if getattr(module, name, None) is ours:
                setattr(module, name, original)
        if originals:
            put_back(self._known, originals)
