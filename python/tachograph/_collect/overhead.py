"""What a record costs on this machine, measured once for each set of features: a small operator is run with recording
and without."""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import time

import torch

from .. import _record

_ROUNDS, _CALLS = 9, 600  # some milliseconds together
# What is recorded for each operator and call. The others cost by allocation or by second, and little.
_PER_RECORD = _record.OPS | _record.SHAPES | _record.STACKS | _record.CALLS | _record.MODULES


def per_record_ns(features: int) -> float | None:
    """CPU time of a record with these features; None where it cannot be measured now, as somebody records."""
    try:
        return _measured(features & _PER_RECORD)
    except _record.RecordError:
        return None


@functools.cache
def _measured(features: int) -> float:
    """Runs on a thread of its own, which no mode, default or autocast of the program reaches."""
    result: list[float] = []
    problem: list[_record.RecordError] = []

    def work() -> None:
        with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
            try:
                _record.open(os.path.join(folder, "overhead.tacho"), features=features)
                try:
                    cost_ns = _cost_ns()
                finally:
                    records = _record.close()["records"]
            except _record.RecordError as e:  # somebody records, or has closed this one as theirs
                problem.append(e)
                return
            result.append(cost_ns * _ROUNDS / max(records, 1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return result[0]


def _cost_ns() -> int:
    """What recording adds to a round. In turns, so that a machine that gets slower does so for both; the least
    disturbed of each counts."""
    x = torch.ones(4, device="cpu")
    plain, recorded = [], []
    for _ in range(_ROUNDS):
        plain.append(_round_ns(x))
        _record.resume()
        recorded.append(_round_ns(x))
        _record.pause()
    return max(min(recorded) - min(plain), 0)


def _round_ns(x: torch.Tensor) -> int:
    began = time.thread_time_ns()
    for _ in range(_CALLS):
        torch.add(x, x)
    return time.thread_time_ns() - began
