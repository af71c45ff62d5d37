"""The ranks of a large job, summarized where they lie and joined into one answer.

    from tachograph import cluster
    with cluster.open_ranks("s3://bucket/run", on="ray://head:10001") as ranks:
        print(ranks.ask("stragglers"))

Each rank becomes a summary (.tsum, at most a megabyte) by a task, and sixteen summaries become one by another, until
one is left. on: "ray://HOST:PORT" = tasks of a Ray cluster, which places them and repeats what a dead node took along
(pip install 'tachograph[ray]'), over the program's own connection where it has one; "local" = threads of this process.
Paths are files, folders, globs and .tsum files, as the machines of the tasks see them: plain paths, or URLs that fsspec
reads (s3://, gs://, hdfs://).

A rank that could not be read is left out and named: ask("losses") has them, every answer counts them."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from . import _engines, _tree
from ._engines import ClusterError as ClusterError
from ._work import sentence_of

if TYPE_CHECKING:
    from .. import Trace
    from .._progress import Progress

__all__ = ["ClusterError", "open_ranks"]


def open_ranks(*paths: str | os.PathLike[str], on: str = "local", threads: int = 0, progress: Progress = None) -> Trace:
    """The ranks of one job, for the questions about ranks: ranks, collectives, stragglers, clocks, spread. save() with
    a name in .tsum keeps them.

    threads: of "local", 0 = one per core. progress(done, total) is called with numbers of ranks. ClusterError: nothing
    could be read, or the cluster is not of use; its text is one sentence with what to do."""
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        return _tree.open_gathered(gather(folder, paths, on, threads, progress))


def gather(
    folder: str, paths: tuple[str | os.PathLike[str], ...], on: str, threads: int, progress: Progress
) -> _tree.Gathered:
    """The summary of all ranks as a file in this folder, and which could not be read."""
    from .._progress import RanksLine, chosen

    names = [os.fspath(path) for path in paths]
    if on != "local":
        names = [name if "://" in name else os.path.abspath(name) for name in names]
    try:
        with _engines.engine_of(on, threads) as engine:
            return _tree.gather(folder, names, engine, chosen(progress, RanksLine))
    except ConnectionError as error:
        raise ClusterError(f"the connection to {on} was lost ({sentence_of(error)}): ask again") from error
    except OSError as error:
        raise ClusterError(
            f"{sentence_of(error)}: the summary goes to {folder} first; TMPDIR names another place"
        ) from error
