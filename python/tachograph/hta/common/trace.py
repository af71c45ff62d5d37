"""Trace: the frames of all ranks with HTA's columns, made one rank at a time when first looked at."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

from tachograph import _read

from .. import _frames
from .._engine import Engine
from ..configs.default_values import DEFAULT_TRACE_DIR
from ..configs.parser_config import AVAILABLE_ARGS, ParserConfig, columns_of
from .trace_file import read_trace, write_trace
from .trace_symbol_table import TraceSymbolTable

# Columns of the answer that frames are made of, beside those of args.
WANTED = [
    "slice",
    "track",
    "index",
    "category",
    "name",
    "ts_us",
    "dur_us",
    "stream",
    "correlation",
    "index_correlation",
    "iteration",
]
MOST_KEYS = 64  # of args in one answer
AT_ONCE = 5  # keys of args in one answer: columns of all of them together would be most of the memory


class _Facts(NamedTuple):
    """What is kept of a rank's rows: they are 100 bytes each, this is 8."""

    slices: Any
    indices: Any


class _Tracks(NamedTuple):
    """Of a rank: the number of the first, and pid and tid of each, whole numbers where they are. pid_numbers: unknown
    where either is missing."""

    first: int
    pids: list[Any]
    tids: list[Any]
    pid_numbers: Any
    tid_numbers: Any


_WHOLE = re.compile(r"-?[0-9]{1,18}")  # what an int64 holds
_STEP = re.compile(r"^ProfilerStep\s*#\s*(\d+)", re.MULTILINE)


def _step_numbers(names: Iterable[str | None]) -> set[int]:
    return set(map(int, _STEP.findall("\n".join(name.replace("\n", " ") for name in names if name))))


class _Lazy(MutableMapping):
    """Frames by rank; one is made when it is first asked for and is the caller's to change from then on."""

    def __init__(self, ranks: list[int], make: Any):
        self._made: dict[int, Any] = {}
        self._ranks, self._make = dict.fromkeys(ranks), make

    def __getitem__(self, rank: int) -> Any:
        if rank not in self._made:
            if rank not in self._ranks:
                raise KeyError(rank)
            self._made[rank] = self._make(rank)
        return self._made[rank]

    def has_made(self, rank: int) -> bool:
        return rank in self._made

    def __setitem__(self, rank: int, frame: Any) -> None:
        self._ranks[rank] = None
        self._made[rank] = frame

    def __delitem__(self, rank: int) -> None:
        del self._ranks[rank]
        self._made.pop(rank, None)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


class Trace:
    """Opens the files at once; everything else waits until it is asked for."""

    def __init__(
        self,
        trace_files: list[str] | dict[int, str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        parser_config: Any = None,
        hta_compat: bool = False,
        include_last_profiler_step: bool = False,
        step_filter: bool = False,
    ) -> None:
        self.engine = Engine(trace_files, trace_dir)
        self.trace_path, self.trace_files = trace_dir, dict(self.engine.paths)
        self.parser_config = parser_config
        self._columns_of_args: dict[str, tuple[str, type, Any]] = columns_of(parser_config)
        self.hta_compat = hta_compat
        self.steps = "all" if not step_filter else "upto_last" if include_last_profiler_step else "without_last"
        self.symbol_table = TraceSymbolTable(self._all_symbols)
        self.traces = _Lazy(self.engine.ranks, self._make)
        self.is_parsed = False
        self.is_aligned = step_filter
        self._min_ts: float | None = None
        self._facts: dict[int, _Facts] = {}
        self._named: set[int] = set()  # ranks with all names in the symbol table
        self._zeros: dict[int, int] = {}
        self._index: dict[int, tuple[int, Any]] = {}
        self._places: dict[int, _Tracks] = {}
        self._meta: dict[int, dict[str, Any]] | None = None

    # ---- what HTA's Trace offers ---------------------------------------------------------------------------

    def parse_traces(
        self, max_ranks: int = -1, use_multiprocessing: bool = True, use_memory_profiling: bool = True
    ) -> None:
        """Nothing is left to parse: opening did."""
        self.is_parsed = True

    def align_and_filter_trace(self, include_last_profiler_step: bool | None = False) -> None:
        """From here on ts begins at 0, where it stood as in the files."""
        self.is_aligned = True
        if self.hta_compat:
            self.steps = "upto_last" if include_last_profiler_step else "without_last"
        self._facts.clear()
        self._named.clear()
        self.traces = _Lazy(self.engine.ranks, self._make)

    def load_traces(
        self,
        include_last_profiler_step: bool | None = False,
        use_multiprocessing: bool = True,
        use_memory_profiling: bool = True,
    ) -> None:
        self.parse_traces()
        self.align_and_filter_trace(include_last_profiler_step)

    def get_ranks(self) -> list[int]:
        return sorted(self.traces)

    def get_all_traces(self) -> MutableMapping[int, Any]:
        return self.traces

    def get_trace(self, rank: int) -> Any:
        if rank not in self.traces:
            raise ValueError(f"rank {rank} is not among the traces; there are {', '.join(map(str, self.get_ranks()))}")
        return self.traces[rank]

    def get_trace_df(self, rank: int) -> Any:
        return self.get_trace(rank)

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Numbers of the steps that have rows, rising."""
        numbers = _frames.integers(self.sums(self.get_ranks()[0] if rank is None else rank, "step"), "iteration")
        return sorted({int(n) for n in numbers if n >= 0})

    def marked_steps(self) -> list[int]:
        """Numbers of the ProfilerSteps among the rows of all ranks. Where annotations of steps overlap, no row need be
        in one of them."""
        return sorted(
            set().union(
                *(_step_numbers(self.sums(rank, "step", columns=["name"])["name"]) for rank in self.get_ranks())
            )
        )

    def get_trace_duration(self, rank: int | None = None) -> float:
        """From the first start to the last start, microseconds."""
        reach = self.sums(self.get_ranks()[0] if rank is None else rank, "rank")
        duration = reach["dur_us"][0] if len(reach) else 0.0
        return int(duration) if self.hta_compat else duration

    def _facts_of(self, rank: int) -> _Facts:
        return (
            self._facts[rank]
            if rank in self._facts
            else self._keep_facts(rank, self.rows(rank, columns=["slice", "index"]))
        )

    def _keep_facts(self, rank: int, rows: Any) -> _Facts:
        self._facts[rank] = _Facts(_frames.narrow(rows, "slice"), _frames.narrow(rows, "index"))
        return self._facts[rank]

    @property
    def meta_data(self) -> dict[int, dict[str, Any]]:
        """The members of each file beside its events."""
        if self._meta is None:
            self._meta = {rank: self._metadata_of(rank) for rank in self.engine.ranks}
        return self._meta

    @property
    def min_ts(self) -> float:
        """What was taken off every ts: the earliest of all ranks, microseconds."""
        if self._min_ts is None:
            rows = self.engine.ask("rows", self.engine.ranks[0], rules="hta" if self.hta_compat else "exact", by="rank")
            start, ts = (rows["start_ns"][0], rows["ts_us"][0]) if len(rows) else (0, 0.0)
            self._min_ts = math.ceil(start / 1000) - int(ts) if self.hta_compat else (start - round(1000 * ts)) / 1000
        return self._min_ts

    def get_trace_start_unixtime_ns(self, rank: int) -> int:
        base = self.meta_data[rank].get("baseTimeNanoseconds")
        if base is None:
            raise KeyError(
                f"the trace of rank {rank} has no baseTimeNanoseconds: its clock cannot be related to others'"
            )
        return round(self.min_ts * 1000) + int(base)

    def decode_symbol_ids(self, use_shorten_name: bool = True) -> None:
        """s_name and s_cat in every frame."""
        from ..utils.utils import shorten_name

        for frame in self.traces.values():
            self.symbol_table.decode_df(frame)
            if use_shorten_name:
                frame["s_name"] = _frames.renamed(frame["s_name"], shorten_name)

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """The document as it stands in the file; of files that are no JSON, as it would."""
        with contextlib.suppress(OSError, ValueError):
            return read_trace(self.trace_files[rank])
        trace, number = self.engine.trace_of(rank)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            trace.export(path, to="chrome", rank=number)
            with open(path, encoding="utf-8", errors="surrogateescape") as f:
                return json.load(f)

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        write_trace(trace_contents, output_file)

    # ---- for the analyzers ---------------------------------------------------------------------------------

    @property
    def row_rules(self) -> str:
        """For questions with the rows of the frames."""
        return "hta-all" if self.hta_compat and self.steps == "all" else self.rules

    @property
    def rules(self) -> str:
        return "exact" if not self.hta_compat else "hta-last" if self.steps == "upto_last" else "hta"

    def ask(self, question: str, rank: int, **args: Any) -> Any:
        """The answer for one rank by our rules or HTA's; None when the trace lacks what it needs."""
        return self.engine.ask(question, rank, **{"rules": self.rules, "limit": "all", **args})

    def slices(self, rank: int) -> Any:
        """The engine's number of the event of each row of the frame, as it was first made."""
        return self._facts_of(rank).slices

    def indices(self, rank: int) -> Any:
        """The index of each of those rows: its ordinal among all events of the file."""
        return self._facts_of(rank).indices

    def indices_of(self, rank: int, slices: Any) -> Any:
        """The index of each of these slices, by the engine's numbers of them: -1 where there is none."""
        import numpy

        if rank not in self._index:
            table = self.engine.ask("rows", rank, columns=["slice", "index"], limit="all")
            of_rows = _frames.integers(table, "slice")
            first = int(of_rows.min()) if len(of_rows) else 0
            known = numpy.full(int(of_rows.max()) - first + 1 if len(of_rows) else 1, -1, dtype=numpy.int32)
            known[of_rows - first] = _frames.integers(table, "index")
            self._index[rank] = (first, known)
        first, known = self._index[rank]
        return numpy.where(slices >= first, known.take(slices - first, mode="clip"), -1)

    def some_rows(self, rank: int, places: Any) -> Any:
        """The rows of the frame at these places, without making the others when the frame was not looked at."""
        return self.traces[rank].iloc[places] if self.traces.has_made(rank) else self._make(rank, places)

    def device_rows(self, rank: int, slices: Any) -> tuple[Any, Any] | None:
        """The rows of these slices of the device, numbered again, in the order of the file, and the place of each among
        the slices, which rise. Only they are made: their columns of whole numbers are as narrow as they need. None
        where a caller has looked at the frame."""
        import numpy
        import pandas

        keys = self.args_of(rank)
        if self.traces.has_made(rank) or len(slices) == 0 or len(keys) > MOST_KEYS:
            return None
        rows = self.rows(rank, side="work", columns=WANTED, args=[key for key, _, _ in keys.values()])
        of_rows = _frames.taken(rows, "slice")
        place, found = _places_among(slices, of_rows)
        kept = None if found.all() else numpy.flatnonzero(found)
        columns = self._columns(rank, rows, kept)
        last = {name: columns.pop(name) for name in ("index_correlation", "iteration")}
        columns.update((name, _of_key(rows, *keys[name], kept)) for name in keys)
        count = len(rows) if kept is None else len(kept)
        return _frames.frame({**columns, **last}, pandas.RangeIndex(count)), _frames.at(place, kept)

    def has_name(self, rank: int, part: str) -> bool:
        """Is there a row with this in its name?"""
        return any(part in (name or "") for name in _frames.codes(self.sums(rank, "name"), "name")[1])

    def moments(self, rank: int, ts: Any) -> Any:
        """Nanoseconds of the file, an array that only the caller needs, as ts of the frames: from the earliest event
        of all
        ranks."""
        import numpy

        return numpy.floor_divide(ts, 1000, out=ts) if self.hta_compat else _frames.as_micros(ts, self.zero_of(rank))

    def zero_of(self, rank: int) -> int:
        """What is taken off this rank's own times, nanoseconds."""
        if rank not in self._zeros:
            begin = self.engine.ask("rows", rank, by="rank")
            self._zeros[rank] = (
                begin["start_ns"][0] - round(1000 * begin["ts_us"][0]) if begin is not None and len(begin) else 0
            )
        return self._zeros[rank]

    def zero_in_file(self, rank: int) -> int:
        """What to add to a ts of the frames for a time of the file, nanoseconds."""
        return round(self.min_ts * 1000) if self.hta_compat else self.zero_of(rank)

    def places(self, rank: int, tracks: Any, room: Sequence[Any] = ()) -> dict[str, Any]:
        """pid and tid of tracks, as numbers where all are, as they stand where the file mixes numbers and words. room:
        arrays of int64 as long as tracks that only the caller needs, to be filled instead of fresh memory; tracks
        itself
        may be the second."""
        import numpy

        known = self._tracks(rank)
        fresh = numpy.empty((2 - len(room[:2]), len(tracks)), dtype=numpy.int64)
        arrays: list[Any] = [*room[:2], *list(fresh)]
        pid, tid = arrays
        if _read.look_up(tracks, known.first, known.pid_numbers, pid):  # all are numbers
            _read.look_up(tracks, known.first, known.tid_numbers, tid)
            return {"pid": pid, "tid": tid}
        place = numpy.maximum(tracks - known.first, 0)
        used = (numpy.bincount(place, minlength=len(known.pids)) > 0).tolist()
        return {"pid": self._mixed(known.pids, used)[place], "tid": self._mixed(known.tids, used)[place]}

    @staticmethod
    def _mixed(kept: list[Any], used: list[bool]) -> Any:
        """Of tracks that are used at all."""
        import numpy

        whole = all(isinstance(value, int) for value, is_used in zip(kept, used) if is_used)
        return numpy.array(
            [value if is_used else 0 for value, is_used in zip(kept, used)], dtype=numpy.int64 if whole else object
        )

    def _tracks(self, rank: int) -> _Tracks:
        import numpy

        if rank not in self._places:
            table = self.engine.ask("tracks", rank, limit="all", columns=["track", "pid", "tid"])
            pids, tids = (
                [int(text) if text is not None and _WHOLE.fullmatch(text) else text for text in table[name]]
                for name in ("pid", "tid")
            )
            whole = [
                pid if isinstance(pid, int) and isinstance(tid, int) else _frames.NO_NUMBER
                for pid, tid in zip(pids, tids)
            ]
            numbers = (
                numpy.array(kept or [0], dtype=numpy.int64)
                for kept in (whole, [tid if isinstance(tid, int) else 0 for tid in tids])
            )
            self._places[rank] = _Tracks(table["track"][0] if len(table) else 0, pids, tids, *numbers)
        return self._places[rank]

    # ---- frames --------------------------------------------------------------------------------------------

    def rows(self, rank: int, **args: Any) -> Any:
        """The answer the frame of a rank is made of."""
        return self.engine.ask(
            "rows", rank, rules="hta" if self.hta_compat else "exact", steps=self.steps, limit="all", **args
        )

    def sums(self, rank: int, by: str, **args: Any) -> Any:
        """The same rows by rank, step or name: worked out by the engine, a row here for many there."""
        return self.rows(rank, by=by, **args)

    def _all_symbols(self) -> None:
        for rank in self.engine.ranks:
            if rank in self._named:
                continue
            rows = self.sums(rank, "name")
            for column in ("category", "name"):
                self.symbol_table.numbers_of(_frames.codes(rows, column)[1])
        self.symbol_table.add_symbols([""])

    def _symbols(self, rows: Any, column: str) -> Any:
        numbers, distinct = _frames.codes(rows, column)
        if distinct:
            _read.look_up(numbers, 0, self.symbol_table.numbers_of(distinct), numbers)
        return numbers

    def _make(self, rank: int, places: Any = None) -> Any:
        """The frame of a rank, or its rows at these places. Columns are as narrow as all rows need, even then. The rows
        are let go before the args are asked for."""
        import pandas

        facts, columns = self._of_rows(rank, places)
        last = {name: columns.pop(name) for name in ("index_correlation", "iteration")}
        columns.update(self._of_args(rank, places))
        index = _frames.at(facts.indices, places).astype("int64")
        return _frames.frame({**columns, **last}, pandas.Index(index))

    def _of_rows(self, rank: int, places: Any) -> tuple[_Facts, dict[str, Any]]:
        rows = self.rows(rank)
        facts = self._keep_facts(rank, rows)
        self._named.add(rank)
        return facts, self._columns(rank, rows, places)

    def _columns(self, rank: int, rows: Any, places: Any) -> dict[str, Any]:
        """All columns but those of args."""
        columns = {
            "index": _frames.narrow(rows, "index"),
            "cat": self._symbols(rows, "category"),
            "name": self._symbols(rows, "name"),
        }
        columns.update(self.places(rank, _frames.integers(rows, "track")))
        columns = {name: _frames.at(values, places) for name, values in columns.items()}
        columns.update((name, _frames.at(values, places)) for name, values in self._times(rows).items())
        for name in ("stream", "correlation", "index_correlation"):
            columns[name] = _frames.at(_frames.narrow(rows, name), places)
        iteration = _frames.narrow(rows, "iteration", _frames.NO_NUMBER)
        some_unknown = iteration.itemsize == 8 and iteration.min() == _frames.NO_NUMBER
        columns["iteration"] = _frames.at(_frames.reals(rows, "iteration") if some_unknown else iteration, places)
        return columns

    def _times(self, rows: Any) -> dict[str, Any]:
        """ts, dur and end. In HTA end stays on the file's clock while ts moves; ours is ts + dur."""
        import numpy

        ts, dur = (
            numpy.array(rows[name]) for name in ("ts_us", "dur_us")
        )  # copies, or they would keep all of the answer
        if not self.is_aligned:
            ts += self.min_ts
        if not self.hta_compat:
            return {"ts": ts, "dur": dur, "end": ts + dur}
        return {"ts": ts.astype("int64"), "dur": dur, "end": ts + dur + (self.min_ts if self.is_aligned else 0)}

    def args_of(self, rank: int) -> dict[str, tuple[str, type, Any]]:
        """Columns that come from args: the key of each, its kind, and what stands where an event has none."""
        cfg = self.parser_config or ParserConfig.get_default_cfg()
        return self._every_arg(rank) if cfg.parse_all_args else self._columns_of_args

    def _every_arg(self, rank: int) -> dict[str, tuple[str, type, Any]]:
        """All keys of the trace; those without a specification by the type of their values."""
        trace, _ = self.engine.trace_of(rank)
        known = {spec.raw_name: spec for name, spec in AVAILABLE_ARGS.items() if not name.startswith("info::")}
        like = {"integer": 0, "real": 0.0, "text": ""}
        found = trace.sql(
            "SELECT key, min(typeof(value)) AS kind FROM args GROUP BY key ORDER BY min(slice)"
        ).to_dicts()
        specs = [
            known.get(row["key"]) or ParserConfig.make_attribute_spec(row["key"], like.get(row["kind"]))
            for row in found
        ]
        return columns_of(ParserConfig([spec for spec in specs if "," not in spec.raw_name]))

    def _of_args(self, rank: int, places: Any) -> dict[str, Any]:
        """The columns that come from args."""
        made: dict[str, Any] = {}
        names = list(self.args_of(rank))
        for first in range(0, len(names), AT_ONCE):
            made.update(self._of_keys(rank, places, names[first : first + AT_ONCE]))
        return made

    def _of_keys(self, rank: int, places: Any, names: list[str]) -> dict[str, Any]:
        keys = self.args_of(rank)
        table = self.rows(rank, columns=["slice"], args=[keys[name][0] for name in names])
        return {name: _of_key(table, *keys[name], None, places) for name in names}

    def _metadata_of(self, rank: int) -> dict[str, Any]:
        table = self.engine.ask("document", rank, limit="all")
        return {row["member"]: json.loads(row["json"]) for row in table}


def _of_key(table: Any, key: str, kind: type, missing: Any, places: Any, chosen: Any = None) -> Any:
    """The values of one key at these places of the table (None: all), or those chosen of them; whole numbers as narrow
    as all at the places need. A key named like a column of the table stands there as args.key."""
    key = f"args.{key}" if f"args.{key}" in table.columns else key
    if table[key].type == "text" and not _frames.is_known(table, key):
        shown = chosen if chosen is not None else places
        return _none_of(len(table if shown is None else shown), kind, missing)
    values = _frames.at(_values(table, key, kind, missing), places)
    return _frames.at(_frames.small(values) if kind is int else values, chosen)


def _places_among(slices: Any, of_rows: Any) -> tuple[Any, Any]:
    """Where among the slices, which rise, each of the others is, and whether it is there. Slices of a device mostly
    follow one another: then each number has its place."""
    import numpy

    first, span = slices[0], int(slices[-1] - slices[0]) + 1
    if span > 8 * len(slices):
        place = numpy.searchsorted(slices, of_rows).clip(max=len(slices) - 1)
    else:
        known = numpy.zeros(span, dtype=numpy.int64)
        known[slices - first] = numpy.arange(len(slices))
        place = known.take(of_rows - first, mode="clip")
    return place, slices[place] == of_rows


def _none_of(count: int, kind: type, missing: Any) -> Any:
    """What stands where no event has the key."""
    import numpy

    values = numpy.empty(count, dtype=object if kind in (str, list) else numpy.int8 if kind is int else numpy.float64)
    values.fill(missing)  # one object for all rows: numpy.full would make one a row
    return values


def _values(table: Any, key: str, kind: type, missing: Any) -> Any:
    import numpy

    if table[key].type == "text":
        numbers, distinct = _frames.codes(table, key)
        known = numpy.empty(
            len(distinct), dtype=object if kind in (str, list) else numpy.int64 if kind is int else numpy.float64
        )
        for i, text in enumerate(distinct):
            known[i] = missing if text is None else _value(text, kind, missing)
        return known[numbers] if len(distinct) else known
    if kind in (str, list):
        made = numpy.empty(len(table), dtype=object)
        made[:] = [missing if v is None else str(v) if kind is str else v for v in table[key]]
        return made
    if kind is int and table[key].type == "int":
        return _frames.narrow(table, key, missing)
    values = numpy.nan_to_num(_frames.reals(table, key), nan=missing)
    return values.astype(numpy.int64) if kind is int else values


def _value(text: str, kind: type, missing: Any) -> Any:
    """A list where the text is one; AMD's "0x0" and other words are no numbers to HTA."""
    if kind in (str, list):
        return json.loads(text) if kind is list and text.startswith("[") else text
    try:
        return kind(text)
    except ValueError:
        return missing


def parse_trace_file(
    trace_file_path: str, cfg: ParserConfig | None = None
) -> tuple[dict[str, Any], Any, TraceSymbolTable]:
    """(members of the file beside its events, frame, symbol table) of one file; ts as in the file."""
    t = Trace([trace_file_path], "", parser_config=cfg)
    rank = t.get_ranks()[0]
    return t.meta_data[rank], t.get_trace(rank), t.symbol_table


def trace_event_timestamp_to_unixtime_ns(trace_event_ts_us: float, trace_metadata: dict[str, Any]) -> int:
    return round(trace_event_ts_us * 1000) + int(trace_metadata["baseTimeNanoseconds"])
