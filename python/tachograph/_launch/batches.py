"""Marks the batches of a DataLoader with worker processes: a range around each in the worker that makes it, and in both
processes a counter with its number, named after the worker; the worker also counts the time on a core. So a reader
knows which batch the loop waits for, and how long its worker took. While a recording runs, two functions and an
attribute of torch are replaced; a worker that is forked meanwhile keeps what it inherits, and one that is spawned
has a recording of its own."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from .notice import notice

LABEL, CPU = "DataLoader batch", "DataLoader batch CPU us"
FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")
WORKER_LOOP = "_worker_loop"  # of torch: it has the number of the batch in `idx`


def counter_of(process: int) -> str:
    return f"{LABEL} of process {process}"


def _marked(original: Callable[..., Any], record: Any) -> Callable[..., Any]:
    begin, end, counter = record.range_begin, record.range_end, record.counter

    @functools.wraps(original)
    def fetch(fetcher: Any, index: Any) -> Any:
        caller = sys._getframe(1)
        number = caller.f_locals.get("idx") if caller.f_code.co_name == WORKER_LOOP else None
        if not isinstance(number, int):
            return original(fetcher, index)
        begin(LABEL)
        since_ns = time.thread_time_ns()
        counter(counter_of(os.getpid()), number)
        try:
            return original(fetcher, index)
        finally:
            counter(CPU, (time.thread_time_ns() - since_ns) // 1000)
            end()

    return fetch


class Batches:
    def __init__(self, record: Any):
        self._record = record
        self._next: dict[int, int] = {}  # iterator: the process that makes the batch it takes next
        self._undo: list[Callable[[], None]] = []
        fetchers = sys.modules.get("torch.utils.data._utils.fetch")
        loaders = sys.modules.get("torch.utils.data.dataloader")
        for name in FETCHERS:
            owner = getattr(fetchers, name, None)
            if owner is not None and "fetch" in vars(owner):
                self._replace(owner, "fetch")
        iterator = getattr(loaders, "_MultiProcessingDataLoaderIter", None)
        undo = notice(iterator, "_rcvd_idx", write=self._taken) if iterator is not None else None
        if undo is not None:
            self._undo.append(undo)

    def _replace(self, owner: type, name: str) -> None:
        original = vars(owner)[name]
        ours = _marked(original, self._record)
        setattr(owner, name, ours)

        def undo() -> None:
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _taken(self, iterator: Any, following: Any) -> None:
        """The loop has the batch before `following`, and asks for another one."""
        process = self._next.pop(id(iterator), None)
        tasks = iterator.__dict__.get("_task_info", {})
        if following > 0:  # an epoch begins with 0, which is no batch
            # Of the first one the worker is not known; it makes that of its next turn, too.
            task = tasks.get(following - 1 + iterator._num_workers) if process is None else None
            process = iterator._workers[task[0]].pid if task is not None else process
            if process is not None:
                self._record.counter(counter_of(process), following - 1)
        task = tasks.get(following)
        if task is not None:
            self._next[id(iterator)] = iterator._workers[task[0]].pid

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()
