"""A table as HTML for notebooks. Names come from traces, traces from strangers: everything is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._read import Table

SHOWN = 50


def _cell(value: Any, numeric: bool) -> str:
    if value is None:
        return "<td></td>"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f'<td style="text-align:right">{escape(text)}</td>' if numeric else f"<td>{escape(text)}</td>"


def table_html(table: Table) -> str:
    columns = [table.column(name) for name in table.columns]
    numeric = [column.type != "text" for column in columns]
    head = "".join(f"<th>{escape(c.name)}{f' <small>{escape(c.unit)}</small>' if c.unit else ''}</th>" for c in columns)
    shown = min(len(table), SHOWN)
    body = "".join("<tr>" + "".join(_cell(c[i], n) for c, n in zip(columns, numeric)) + "</tr>" for i in range(shown))
    below = [f"{shown} of {len(table)} rows"] if shown < len(table) else []
    below += table.notes
    below += [f"{loss['loss']}: {loss['count']} ({loss['meaning']})" for loss in table.losses]
    foot = "".join(f"<br><small>{escape(text)}</small>" for text in below)
    return f"<div><table><caption>{escape(table.question)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}</div>"
