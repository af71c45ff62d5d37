"""Records what PyTorch does, reads its traces and answers questions about them.

    import tachograph as tg
    with tg.profile() as prof:                      # and all else that torch.profiler has
        train_step()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

    with tg.open("trace.json.gz") as trace:
        print(trace.report())
        steps = trace.ask("steps", by="summary")
        steps.to_pandas()

Times are integer nanoseconds and sizes integer bytes; each column says its unit. `tg.questions()` lists what can be
asked. torch is imported when something that records is first used; reading needs no torch."""

from __future__ import annotations

import builtins
import importlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _read
from ._read import Column, TachographError

if TYPE_CHECKING:
    from ._progress import Progress
    from ._view import Page

__version__ = _read.version

# What records and measures, and which module has it; that module is imported at the first use of the name.
_RECORDING = {
    "profiler": (
        "profile",
        "_KinetoProfile",
        "schedule",
        "supported_activities",
        "tensorboard_trace_handler",
        "ProfilerAction",
        "ProfilerActivity",
        "kineto_available",
        "DeviceType",
        "record_function",
        "ExecutionTraceObserver",
        "CuspyConfig",
        "PerformanceMetricsConfig",
        "ProfilerActivityConfig",
        "_ExperimentalConfig",
        "KinetoStepTracker",
        "RecordScope",
        "itt",
    ),
    "_events.event_list": ("EventList", "FunctionEvent", "FunctionEventAvg"),
    "_labels.module_labels": ("modules",),
    "_profile.folder": ("session",),
    "timing": ("timer", "latency", "throughput", "warm_up"),
    "_measure.phases": ("phases", "request_phases", "module_times", "training_result"),
    "_profile.trainer": ("TrainerCallback",),
    "_measure.conditions": ("conditions", "baseline"),
    "_launch": ("step",),
    "_diff": ("diff", "Diff"),
    "_method": ("method",),
    "_memory.device_snapshots": ("memory_snapshot",),
    "_flight.ring_recorder": ("flight_recorder",),
    "_collect.kept_graphs": ("keep_graphs",),
    "_execution_trace": ("load_execution_trace", "ExecutionTrace"),
}
_MODULES = ("profiler", "autograd", "timing", "memory", "hta", "serving", "trainers", "cluster")
_HOME = {name: module for module, names in _RECORDING.items() for name in names}

__all__ = [  # noqa: PLE0604  names of a dict of texts
    "open",
    "open_ranks",
    "questions",
    "formats",
    "Trace",
    "Table",
    "Column",
    "Question",
    "Argument",
    "ColumnInfo",
    "TachographError",
    "__version__",
    *(name for name in _HOME if not name.startswith("_")),
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name == "_record":
        return _recorder()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _recorder() -> Any:
    """A wheel has one for each Python that it was built for, and reads with later ones too."""
    try:
        return importlib.import_module("._record", __name__)
    except ModuleNotFoundError:
        import platform

        raise ImportError(
            f"this installation of tachograph has no recorder for {platform.python_implementation()} "
            f"{platform.python_version()}; it reads traces. To record, compile one: "
            "pip install --no-binary tachograph tachograph"
        ) from None


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME, *_MODULES, "__doc__", "__file__", "__name__", "__path__"})


class Argument(NamedTuple):
    """An argument of a question: its name, the value it has when not given, what it does."""

    name: str
    default: str
    meaning: str


class ColumnInfo(NamedTuple):
    """A column of an answer; type is text, int, real or bool. role: what its cells mean. fold: how it is merged where
    rows of several ranks become one, by the columns `of` and `by` of the same question; docs/api.md lists both.
    important: one of those that answer the question, the last to be left out of a narrow table."""

    name: str
    type: str
    unit: str
    meaning: str
    role: str
    fold: str
    of: str
    by: str
    important: bool


class Question(NamedTuple):
    """What can be asked: what it takes, and the columns of its answer."""

    name: str
    meaning: str
    arguments: tuple[Argument, ...]
    columns: tuple[ColumnInfo, ...]


def questions() -> dict[str, Question]:
    """Every question there is, by name."""
    return {
        name: Question(name, meaning, tuple(Argument(*a) for a in arguments), tuple(ColumnInfo(*c) for c in columns))
        for name, meaning, arguments, columns in _read.questions()
    }


def formats() -> list[str]:
    """Names of the output formats, for `Trace.export(to=…)` and `Table.to_text(…)`."""
    return _read.formats()


def open(path: str | os.PathLike[str], threads: int = 0, progress: Progress = None) -> Trace:
    """Open a trace file, a directory or glob of them (one file per rank), or "-" for standard input.

    Of a directory with more than 16 MB of files one rank after the other is read and let go. ask(…, rank=3) reads that
    rank again, two stay in memory; report(), diff() and questions about ranks need no more, nor do those with rows
    come rank by rank or add up over the ranks. call_stack without event=, sql(), export() and save() read all ranks
    into memory the first time.

    threads: workers, 0 = one per core. progress(done, total) is called while reading, also when a question reads ranks
    again, with bytes on disk, total -1 when unknown; when it returns False, reading stops and TachographError (code
    CANCELLED) is raised. True shows a line on standard error once a second has passed, None does so on a terminal,
    False shows nothing."""
    trace = _read.open(Trace, (os.fsencode(path),), False, threads, _progress_callback(progress))
    trace._path, trace._paths = path, (path,)
    return trace


def open_ranks(*paths: str | os.PathLike[str], threads: int = 0, progress: Progress = None) -> Trace:
    """Open the ranks of one job, only for the questions about ranks: ranks, collectives, stragglers, clocks, spread.
    Folders, globs, traces and .tsum files are read rank by rank and only what those questions need is kept, about a
    megabyte a rank at most.

    threads and progress are as in open()."""
    trace = _read.open(Trace, tuple(map(os.fsencode, paths)), True, threads, _progress_callback(progress))
    trace._paths = paths
    return trace


def _progress_callback(progress: Progress) -> Callable[[int, int], Any] | None:
    from ._progress import chosen

    return chosen(progress)


def _texts(args: dict[str, Any]) -> dict[str, str]:
    """Arguments as one would type them: a list becomes a,b,c; None is left out; True becomes 1."""
    result = {}
    for name, value in args.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = int(value)
        result[name] = ",".join(map(str, value)) if isinstance(value, (list, tuple, set, range)) else str(value)
    return result


class NoColumn(KeyError):
    """A KeyError that shows its sentence as it is, without quotes around it."""

    __str__ = Exception.__str__


class Table(_read.Table):
    """An answer. Column-wise: table["dur_ns"] is a Column, which numpy.asarray takes without a copy. Row-wise:
    to_dicts().

    Anything that speaks Arrow takes the table itself: pyarrow.table(t), polars.DataFrame(t),
    pandas.DataFrame.from_arrow(t), duckdb.sql("select … from t")."""

    def __getitem__(self, name: str) -> Column:
        return self.column(name)

    def column(self, name: str | int, /) -> Column:
        """By its name, or its number."""
        try:
            return super().column(name)
        except KeyError:
            import difflib

            near = difflib.get_close_matches(str(name), self.columns, 1)
            hint = f"did you mean {near[0]!r}? It" if near else "it"
            raise NoColumn(f"{self.question} has no column {name!r}; {hint} has {', '.join(self.columns)}") from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = [self.column(name) for name in self.columns]
        for row in zip(*columns):
            yield dict(zip(self.columns, row))

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a row; None where a value is unknown."""
        return list(self)

    def to_arrow(self) -> Any:
        """A pyarrow.Table over the same memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> Any:
        """A polars.DataFrame over the same memory."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame: int64, float64 and object columns; Int64 and boolean where an integer or a truth is
        unknown."""
        import numpy
        import pandas

        data = {}
        for name in self.columns:
            column = self.column(name)
            if column.type == "text":
                data[name] = pandas.Series(list(column), dtype=object)
                continue
            values = numpy.asarray(column)
            unknown = values == numpy.iinfo(numpy.int64).min if column.type == "int" else values < 0
            if column.type == "bool":
                data[name] = pandas.arrays.BooleanArray(values > 0, unknown) if unknown.any() else values > 0
            elif column.type == "int" and unknown.any():
                data[name] = pandas.arrays.IntegerArray(values.copy(), unknown)
            else:
                data[name] = values
        return pandas.DataFrame(data)

    def to_text(self, format: str = "text", width: int = 0) -> str:
        """The table in "text", "json" or "csv", as the command line prints it. width: of the terminal, 0 =
        unlimited."""
        return self._write(format, width, -1)

    def __repr__(self) -> str:
        import shutil

        width = shutil.get_terminal_size((140, 24)).columns
        shown = 60
        text = self._write("text", width, shown).rstrip("\n")
        return text + f"\n… {len(self)} rows" if len(self) > shown else text

    def _repr_html_(self) -> str:
        from ._html import table_html

        return table_html(self)


class Trace(_read.Trace):
    """An open trace. Use as a context manager, or call close(). Tables stay usable after that."""

    _path: str | os.PathLike[str] | None = None  # as open() was called
    _paths: tuple[str | os.PathLike[str], ...] = ()  # as open() or open_ranks() was called

    def ask(self, question: str, **args: Any) -> Table:
        """Answer a question, e.g. ask("ops", by="shape", step="5:8", sort="self_cpu_ns", limit=10)."""
        return self._ask(Table, question, _texts(args))

    def sql(self, query: str) -> Table:
        """Any single SELECT over the trace's tables; SELECT name FROM sqlite_schema lists them."""
        return self._sql(Table, query)

    @property
    def questions(self) -> dict[str, Question]:
        return questions()

    @property
    def losses(self) -> Table:
        """Everything that was lost or altered while reading, with the first byte it happened at."""
        return self.ask("losses")

    def report(self, format: str = "text", width: int = 0, color: bool = False) -> str:
        """The report: "text", or "json" for one object with the same figures. A notebook shows it as a page."""
        from ._notebook import Page

        return Page(self._report(format, width, color))

    def view(self, height: int = 720, port: int = 0) -> Page:
        """Open the page of `tachograph view` on the trace's file: p.url for a browser on this machine; in a notebook
        the page shows itself, so many pixels high. p.close() ends it. port: 0 = one that is free."""
        from ._view import page_of

        return page_of(self._path, height, port)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.report(width=110))}</pre>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a native .tacho file, which opens at once; with a name in .tsum, what the questions about ranks need
        and no more. The file appears under its name only when complete."""
        self._save(os.fsencode(path))

    def export(
        self,
        path: str | os.PathLike[str],
        to: str | None = None,
        what_if: dict[str, Any] | None = None,
        **args: Any,
    ) -> None:
        """Write the trace for another program. to: a name of formats(); by default what the end of the path says
        (.json chrome, .pftrace perfetto, .folded, .speedscope.json, .csv). The file appears only when complete.

        what_if: arguments of that question, as {"remove": 'name ~ "print"'}: chrome, only the steps, as they would
        be."""
        target = os.fspath(path)
        if what_if is not None:
            args = {"predicted": "", **what_if, **args}
        draft = f"{target}.{os.getpid()}.part"
        try:
            with builtins.open(draft, "xb", buffering=0) as file:
                self._export(to or _format_of(target), _texts({"trace_name": target, **args}), file.fileno())
            os.replace(draft, target)
        except BaseException as error:
            if os.path.exists(draft):
                os.unlink(draft)
            if isinstance(error, OSError) and error.filename == draft:
                error.filename = target  # the name that the caller knows
            raise

    def __repr__(self) -> str:
        return f"<tachograph.Trace {', '.join(repr(os.fspath(path)) for path in self._paths)}>"

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def load_ipython_extension(shell: Any) -> None:
    """%load_ext tachograph: the cell magic %%tachograph."""
    from ._notebook import load_ipython_extension as load

    load(shell)


def _format_of(path: str) -> str:
    name = _read.format_of_file(os.fsencode(path))
    if name is None:
        raise ValueError(f"{path}: unknown extension; pass to=, one of {', '.join(formats())}")
    return name


if os.environ.get("TACHOGRAPH_FLIGHT"):
    importlib.import_module("._flight.ring_recorder", __name__).from_environment(os.environ["TACHOGRAPH_FLIGHT"])
if os.environ.get("TACHOGRAPH_GRAPHS"):
    importlib.import_module("._collect.kept_graphs", __name__).from_environment(os.environ["TACHOGRAPH_GRAPHS"])
