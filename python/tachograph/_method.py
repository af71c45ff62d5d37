"""The method as one call: tachograph.method(). It returns the rows of the question diagnosis."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from . import Trace, open as open_trace

LEFT_OUT = 2  # steps before the recording: they allocate, tune and compile


def method(
    what: Trace | str | os.PathLike[str] | Callable[[Any], Any],
    loader: Iterable[Any] | None = None,
    *,
    steps: int = 10,
    show: bool = True,
) -> dict[str, list[dict[str, Any]]]:
    """Baseline, kind of bottleneck, component, operation, what to change, and what to measure next: the rows of each,
    which are printed, too. what: a trace or its path, or a function of a batch, with the loader of these; two steps are
    left out, and the next are recorded."""
    if callable(what):
        if loader is None:
            raise TypeError("method takes a trace, or a function of a batch and a loader of batches")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "method.json")
            _record(what, loader, steps, path)
            return _parts(open_trace(path, progress=False), show)
    return _parts(what if isinstance(what, Trace) else open_trace(what), show)


def _record(step: Callable[[Any], Any], loader: Iterable[Any], steps: int, path: str) -> None:
    from .profiler import profile

    batches = iter(loader)
    done = 0
    for batch in itertools.islice(batches, LEFT_OUT):
        step(batch)
        done += 1
    with profile(record_shapes=True, with_stack=True, with_modules=True) as recording:
        for batch in itertools.islice(batches, steps):
            step(batch)
            recording.step()
            done += 1
    if done <= LEFT_OUT:
        raise ValueError(f"the loader has {done} batch{'es' * (done != 1)}; the method needs {LEFT_OUT + 1} or more")
    recording.export_chrome_trace(path)


def _parts(trace: Trace, show: bool) -> dict[str, list[dict[str, Any]]]:
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in trace.ask("diagnosis").to_dicts():
        parts.setdefault(str(row["part"]), []).append(dict(row))
    for part, rows in parts.items() if show else ():
        print(part, *("  " + _line(row) for row in rows), sep="\n")
    return parts


def _line(row: dict[str, Any]) -> str:
    words = [f"{row['level']:<10} {row['item']}"]
    if row["value"] is not None:
        words.append(f"{row['value'] / 1e6:.3f} ms")
    if row["share_pct"] is not None:
        words.append(f"{row['share_pct']:.1f} %")
    words += [row[key] for key in ("where", "evidence", "next") if row[key]]
    return "; ".join(words)
