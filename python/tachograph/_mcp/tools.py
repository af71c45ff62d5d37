"""What the tools answer: small pages with types, only from files inside given roots. No protocol here."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
from typing import Any

from .. import TachographError, Trace, diff as compare, open as open_trace, questions as all_questions

try:
    from typing_extensions import TypedDict  # pydantic, behind the package mcp, takes no other before Python 3.12
except ImportError:
    from typing import TypedDict

OPEN_AT_ONCE = 4
ROWS_MOST = 200
CELL_MOST = 400  # characters of a text: names of kernels are longer than what they say
ENTRIES_MOST = 100_000  # of a folder
ENDS = (".json", ".gz", ".zst", ".tacho", ".tsum", ".pickle", ".pkl")  # of names that may be traces
SMALL = 1 << 20  # bytes of JSON that are looked into


class Refused(Exception):
    """What an agent can mend: the text says how."""


class Column(TypedDict):
    name: str
    type: str
    unit: str
    meaning: str


class Page(TypedDict):
    """Some rows of an answer. next_offset: where the next page begins, -1 on the last one."""

    columns: list[Column]
    rows: list[list[Any]]
    total_rows: int
    next_offset: int
    notes: list[str]


class Opened(TypedDict):
    path: str
    ranks: int
    steps: int
    step_kind: str
    span_ns: int
    events: int
    losses: list[str]
    questions_that_answer: str


class Finding(TypedDict):
    cause: str
    severity: str
    share_of_step_pct: float | None
    cost_ns_a_step: int | None
    saving_ns_a_step: int | None
    saving_low_ns_a_step: int | None
    saving_high_ns_a_step: int | None
    where: str
    evidence: str
    advice: str


class WhatIf(TypedDict):
    """step_ns: the median step. cures: what it would take if one finding were mended; savings of several do not add up
    in general."""

    step_ns: int | None
    cures: list[dict[str, Any]]
    data_loading_in_workers: list[dict[str, Any]]


class Compared(TypedDict):
    headline: str
    notes: list[str]
    failed: list[str]
    page: Page


class Traces:
    """Open traces below the roots. Everything that takes a path resolves it first, links too."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = [os.path.realpath(root) for root in roots]
        for given, root in zip(roots, self.roots):
            if not os.path.isdir(root):
                raise ValueError(f"the root {given!r} is no folder")
        self._open: collections.OrderedDict[tuple[str, int, int], Trace] = collections.OrderedDict()
        self._lock = threading.RLock()

    # ---- files

    def resolve(self, path: str) -> str:
        """The real path, inside a root."""
        if not path or "\0" in path:
            raise Refused("path is empty: name a trace file, or a folder of ranks")
        places = [path] if os.path.isabs(path) else [os.path.join(root, path) for root in self.roots]
        inside = [real for real in map(os.path.realpath, places) if self._is_inside(real)]
        if not inside:
            raise Refused(f"{path} is outside of the roots: {', '.join(self.roots)}")
        real = next((place for place in inside if os.path.exists(place)), None)
        if real is None:
            raise Refused(f"there is no {path} in the roots: {', '.join(self.roots)}")
        if not os.path.isdir(real) and not os.path.isfile(real):
            raise Refused(f"{path} is neither a file nor a folder")
        return real

    def _is_inside(self, real: str) -> bool:
        return any(real == root or real.startswith(os.path.join(root, "")) for root in self.roots)

    def _check_folder(self, folder: str) -> None:
        """A folder of ranks is read file by file: none of them may be a link out of the roots."""
        seen = 0
        for parent, folders, files in os.walk(folder):
            for name in [*folders, *files]:
                seen += 1
                place = os.path.join(parent, name)
                if os.path.islink(place) and not self._is_inside(os.path.realpath(place)):
                    raise Refused(f"{place} is a link out of the roots")
            if seen > ENTRIES_MOST:
                raise Refused(f"{folder} has more than {ENTRIES_MOST:,} entries: name the folder of one run")

    def get(self, path: str) -> Trace:
        """The open trace; read again when the file has changed."""
        real = self.resolve(path)
        if os.path.isdir(real):
            self._check_folder(real)
        state = os.stat(real)
        key = (real, state.st_mtime_ns, state.st_size)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
            try:
                trace = open_trace(real, progress=False)
            except TachographError as error:
                raise Refused(str(error)) from None
            self._open[key] = trace
            while len(self._open) > OPEN_AT_ONCE:
                self._open.popitem(last=False)[1].close()
            return trace

    # ---- tools

    def files(self, folder: str, limit: int) -> list[dict[str, Any]]:
        real = self.resolve(folder or ".")
        if not os.path.isdir(real):
            raise Refused(f"{folder} is no folder")
        found: list[dict[str, Any]] = []
        for name in sorted(os.listdir(real)):
            place = os.path.join(real, name)
            if len(found) < _bounded(limit) and self._is_inside(os.path.realpath(place)) and _may_be_traces(place):
                is_folder = os.path.isdir(place)
                found.append({"path": place, "folder": is_folder, "bytes": 0 if is_folder else os.path.getsize(place)})
        return found

    def opened(self, path: str) -> Opened:
        with self._lock:
            trace = self.get(path)
            rows = [row for row in trace.ask("overview") if row["group"] == "summary"]
            losses = [f"{row['loss']}: {row['count']} ({row['meaning']})" for row in trace.losses if row["count"]]
        texts = {row["quantity"]: row["text"] for row in rows}

        def total(quantity: str, over: Any = sum) -> int:
            return int(over([row["value"] or 0 for row in rows if row["quantity"] == quantity] or [0]))

        return {
            "path": self.resolve(path),
            "ranks": len({row["rank"] for row in rows}),
            "steps": total("steps", max),
            "step_kind": texts.get("step_kind") or "",
            "span_ns": total("span_ns", max),
            "events": total("events"),
            "losses": losses,
            "questions_that_answer": "call questions() for the list; findings() says what to change first",
        }

    def ask(self, path: str, question: str, arguments: dict[str, Any], limit: int, offset: int) -> Page:
        known = all_questions().get(question)
        if known is None:
            raise Refused(f"{question!r} is no question: call questions()")
        names = {argument.name for argument in known.arguments}
        for name in arguments:
            if name not in names:
                raise Refused(f"{question} has no argument {name!r}: it takes {', '.join(sorted(names))}")
        with self._lock:
            try:
                table = self.get(path).ask(question, **arguments)
            except TachographError as error:
                raise Refused(str(error)) from None
            return page(table, known.columns, limit, offset)

    def findings(self, path: str, limit: int) -> list[Finding]:
        with self._lock:
            try:
                rows = self.get(path).ask("findings", limit=_bounded(limit)).to_dicts()
            except TachographError as error:
                raise Refused(str(error)) from None
        return [
            {
                "cause": row["cause"] or "",
                "severity": row["severity"] or "",
                "share_of_step_pct": row["share_pct"],
                "cost_ns_a_step": row["cost_ns"],
                "saving_ns_a_step": row["saving_ns"],
                "saving_low_ns_a_step": row["saving_low_ns"],
                "saving_high_ns_a_step": row["saving_high_ns"],
                "where": _short(row["where"] or ""),
                "evidence": row["evidence"] or "",
                "advice": row["advice"] or "",
            }
            for row in rows
        ]

    def what_if(self, path: str) -> WhatIf:
        with self._lock:
            trace = self.get(path)
            try:
                steps = trace.ask("steps", by="summary", where="step = 'p50'").to_dicts()
                found = trace.ask("findings").to_dicts()
            except TachographError as error:
                raise Refused(str(error)) from None
            loading: list[dict[str, Any]] = []
            with contextlib.suppress(TachographError):  # no loader in this trace
                loading += [{**row} for row in trace.ask("loader_overlap")]
        step_ns = max((row["total_ns"] for row in steps if row["total_ns"] is not None), default=None)
        cures = [
            {
                "cause": row["cause"],
                "saving_ns_a_step": row["saving_ns"],
                "saving_low_ns_a_step": row["saving_low_ns"],
                "saving_high_ns_a_step": row["saving_high_ns"],
                "step_ns_then": max(step_ns - row["saving_ns"], 0) if step_ns is not None else None,
                "confidence": row["confidence"],
                "method": row["method"],
                "change": row["advice"],
            }
            for row in found
            if row["saving_ns"]
        ]
        return {"step_ns": step_ns, "cures": cures, "data_loading_in_workers": loading}

    def diff(self, a: str, b: str, by: str, fail_if: list[str], limit: int, offset: int) -> Compared:
        with self._lock:
            try:
                result = compare(self.get(a), self.get(b), by=by)
                if not hasattr(result, "headline"):
                    raise Refused("by is step, category, op, module, kernel, family, memory or all")
                failed = result.failed(*fail_if)
                columns = [(column, "", "", "") for column in result.table.columns]
                return {
                    "headline": result.headline,
                    "notes": result.notes[:20],
                    "failed": failed,
                    "page": page(result.table, columns, limit, offset),
                }
            except TachographError as error:
                raise Refused(str(error)) from None


def _may_be_traces(place: str) -> bool:
    """A folder, or a file that may be a trace: by its end, and small JSON by its content."""
    name = os.path.basename(place)
    if os.path.isdir(place):
        return not name.startswith((".", "__"))
    if name.startswith(".") or not name.endswith(ENDS) or not os.path.isfile(place):
        return False
    if not name.endswith(".json") or os.path.getsize(place) > SMALL:
        return True
    try:
        with open(place, "rb") as file:
            text = file.read(SMALL)
    except OSError:
        return False
    return b'"traceEvents"' in text or text.lstrip().startswith(b"[")


def questions_page(name: str) -> list[dict[str, Any]]:
    """All questions in a line each, or one with its arguments and columns."""
    every = all_questions()
    if not name:
        return [{"name": q.name, "meaning": q.meaning} for q in every.values()]
    if name not in every:
        raise Refused(f"{name!r} is no question: call questions() without a name")
    q = every[name]
    return [
        {
            "name": q.name,
            "meaning": q.meaning,
            "arguments": [a._asdict() for a in q.arguments],
            "columns": [c._asdict() for c in q.columns],
        }
    ]


def explain(term: str) -> list[dict[str, Any]]:
    """Where a name stands among questions, arguments and columns, and what it means there."""
    word = term.strip().lower()
    if not word:
        raise Refused("term is empty: it is the name of a question, an argument or a column")
    found: list[dict[str, Any]] = []
    for q in all_questions().values():
        if q.name.lower() == word:
            found.append({"kind": "question", "of": q.name, "meaning": q.meaning, "unit": ""})
        found += [
            {"kind": "argument", "of": q.name, "meaning": a.meaning, "unit": ""}
            for a in q.arguments
            if a.name.lower() == word
        ]
        found += [
            {"kind": "column", "of": q.name, "meaning": c.meaning, "unit": c.unit}
            for c in q.columns
            if c.name.lower() == word
        ]
    if not found:
        raise Refused(f"{term!r} is the name of no question, argument or column")
    return found[:ROWS_MOST]


def page(table: Any, known: Any, limit: int, offset: int) -> Page:
    """Rows offset to offset + limit."""
    count, first = _bounded(limit), max(offset, 0)
    about = {column[0]: column for column in known}
    names = list(table.columns)
    columns = [table[name] for name in names]
    last = min(first + count, len(table))
    return {
        "columns": [
            {"name": n, "type": c.type, "unit": c.unit, "meaning": about[n][3] if n in about else ""}
            for n, c in zip(names, columns)
        ],
        "rows": [[_short(column[row]) for column in columns] for row in range(first, last)],
        "total_rows": len(table),
        "next_offset": last if last < len(table) else -1,
        "notes": [_short(note) for note in table.notes[:20]],
    }


def _bounded(limit: int) -> int:
    if limit < 1:
        raise Refused(f"limit={limit}: at least 1 row")
    return min(limit, ROWS_MOST)


def _short(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None  # JSON has no NaN
    return value[: CELL_MOST - 1] + "…" if isinstance(value, str) and len(value) > CELL_MOST else value
