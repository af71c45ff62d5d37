"""Two traces held against each other.

d = tg.diff("before.tacho", "after.tacho")
print(d)                                  # the headline, then what changed most
d.table.to_pandas()
assert not d.failed("step.p50 > +5%", 'op["aten::conv2d"].self_cpu > +10%')
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from . import _read

if TYPE_CHECKING:
    from . import Table

PLAIN = ("name", "short_name", "conditions")  # what a diff by these is: a table and no more


class Diff:
    """What tg.diff() returns. `table` has one row a figure: a, b, delta, the 95 % interval of it, and a verdict."""

    def __init__(self, table: Table[Any], whole: Callable[[], Table[Any]]):
        self.table = table
        self._whole = whole  # the same without by, where, sort and limit

    @property
    def headline(self) -> str:
        """The first sentence, such as "B is 8.1 % faster: 41.2 → 37.9 ms a step (95 %: 6.9 … 9.2 %)"."""
        return self.table.notes[0]

    @property
    def notes(self) -> list[str]:
        return self.table.notes[1:]

    def failed(self, *tests: str) -> list[str]:
        """Those of the tests that hold, each as a sentence with the figures; an empty list when none does.

        A test is `quantity > bound`: step.p50 > +5%, op["aten::mm"].self_cpu > +1ms, kernels > 2000, memory.peak >
        +10%. With a sign or in % it is about the change, and noise never holds; else about the figure of b. All rows
        count, whatever `by` was."""
        if not tests:
            return []
        table = self._whole()
        said = (_read.diff_fails(table, test) for test in tests)
        return [sentence for sentence in said if sentence]

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.table.to_dicts()

    def markdown(self) -> str:
        """For a pull request."""
        return _read.diff_text(self.table, "markdown", 0, False)

    def __str__(self) -> str:
        return _read.diff_text(self.table, "text", shutil.get_terminal_size((140, 24)).columns, False)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<div><b>{escape(self.headline)}</b><ul>{notes}</ul>{_rows_html(self.table)}</div>"


def _number(value: Any, unit: str) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:,.4g} ms" if unit == "ns" else f"{value:,.6g} {unit}"


def _rows_html(table: Any, shown: int = 50) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("by", "name", "quantity", "A", "B", "change", "%", "95 %", "verdict")
    )
    body = []
    for row in list(table)[:shown]:
        unit = row["unit"]
        interval = "" if row["low"] is None else f"{_number(row['low'], unit)} … {_number(row['high'], unit)}"
        share = "" if row["delta_pct"] is None else f"{row['delta_pct']:+.1f}"
        cells = (
            row["by"],
            row["name"],
            row["quantity"],
            _number(row["a"], unit),
            _number(row["b"], unit),
            _number(row["delta"], unit),
            share,
            interval,
            row["verdict"],
        )
        body.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    more = f"<small>{shown} of {len(table)} rows</small>" if len(table) > shown else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{more}"


def diff(a: Any, b: Any, by: str | list[str] = "all", **arguments: Any) -> Any:
    """Compare b with a: two open traces, or paths. by: step, category, op, module, kernel, family, memory, a list of
    them, or all.

    Other arguments: step, rank (step_a, rank_b, … where the sides differ), least="2%", accept="batch_size". With
    question="ops" the answers to one question are compared column by column (columns=, keys=), and by is that
    question's; by="name" or "short_name" adds up counts and durations (rules="hta": as HolisticTraceAnalysis does),
    by="conditions" lists how the traces were made. These three return a Table, the others a Diff."""
    from . import Table, Trace, _texts, open as open_trace

    texts = _texts(arguments if "question" in arguments and by == "all" else {"by": by, **arguments})
    before, after = (trace if isinstance(trace, Trace) else open_trace(os.fspath(trace)) for trace in (a, b))
    table = _read.diff(Table, before, after, texts)
    if "question" in texts or texts.get("by") in PLAIN:
        return table
    narrow = ("by", "where", "sort", "limit")
    wide = {name: text for name, text in texts.items() if name not in narrow}
    return Diff(table, lambda: _read.diff(Table, before, after, wide))
