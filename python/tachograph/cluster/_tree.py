"""From ranks to one summary: a task a rank, then a task for each sixteen summaries, in the order of the ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._engines import ClusterError, Engine
from ._work import Missing, Rank, list_ranks, merge_summaries, summarize_rank

if TYPE_CHECKING:
    from .. import Trace

FAN_IN = 16
Progress = Callable[[int, int], Any]


class Gathered(NamedTuple):
    path: str  # of the .tsum file
    missing: list[Missing]


class Tree:
    """Of each level, from the ranks up: the task of each place, or None where nothing came of it. A block of a level
    is merged when all of it has ended."""

    def __init__(self, engine: Engine, ranks: list[Rank]) -> None:
        self.engine = engine
        self.ranks = ranks
        self.missing: dict[int, Missing] = {}
        self.levels: list[dict[int, Any]] = [{}]
        self.widths = [len(ranks)]
        while self.widths[-1] > 1:
            self.widths.append(-(-self.widths[-1] // FAN_IN))
            self.levels.append({})
        self.running = {engine.submit(summarize_rank, i, rank): (0, i) for i, rank in enumerate(ranks)}

    def run(self, progress: Progress | None) -> Any:
        """The task that has the summary of all; None: no rank could be read."""
        while self.running:
            for task, trouble in self.engine.ended(list(self.running)):
                level, place = self.running.pop(task)
                if trouble and level:
                    raise ClusterError(f"summaries could not be merged: {trouble}")
                if trouble:
                    path = self.ranks[place][0]
                    self.missing[place] = Missing(path, trouble) if isinstance(trouble, str) else trouble
                self.put(level, place, None if trouble else task)
            if progress:
                progress(len(self.levels[0]), len(self.ranks))
        return self.levels[-1][0]

    def put(self, level: int, place: int, task: Any) -> None:
        here = self.levels[level]
        here[place] = task
        if level + 1 == len(self.levels):
            return
        block = place // FAN_IN
        places = range(block * FAN_IN, min((block + 1) * FAN_IN, self.widths[level]))
        if not all(i in here for i in places):
            return
        parts = tuple(here[i] for i in places if here[i] is not None)
        if len(parts) > 1:
            self.running[self.engine.submit(merge_summaries, parts=parts)] = level + 1, block
            here.update(dict.fromkeys(places))  # or all summaries would stay in memory
        else:
            self.put(level + 1, block, parts[0] if parts else None)


def _find(engine: Engine, paths: list[str]) -> list[Rank]:
    """The ranks, as they are seen where the work runs."""
    task = engine.submit(list_ranks, paths)
    while not (ended := engine.ended([task])):
        continue
    ((_, trouble),) = ended
    if isinstance(trouble, Missing):
        raise ClusterError(f"{trouble.path} cannot be listed: {trouble.why}")
    if trouble:
        raise ClusterError(f"the ranks cannot be listed: {trouble}")
    ranks: list[Rank] = engine.result(task)
    if not ranks:
        raise ClusterError(
            f"no ranks match {' '.join(paths)}, as the workers see it: name the files or folders that hold them"
        )
    return ranks


def gather(folder: str, paths: list[str], engine: Engine, progress: Progress | None) -> Gathered:
    if not paths:
        raise ClusterError("there are no ranks to open: name their files or folder", 2)
    ranks = _find(engine, paths)
    tree = Tree(engine, ranks)
    task = tree.run(progress)
    missing = [tree.missing[place] for place in sorted(tree.missing)]
    if task is None:
        first = missing[0]
        raise ClusterError(f"none of the {len(ranks)} ranks could be read; {first.path} says: {first.why}")
    path = os.path.join(folder, "run.tsum")
    with open(path, "wb") as file:
        file.write(engine.result(task))
    return Gathered(path, missing)


def open_gathered(found: Gathered) -> Trace:
    from .. import open_ranks

    ranks = open_ranks(found.path, progress=False)
    for path, why in found.missing:
        ranks._add_missing(path, why)
    return ranks
