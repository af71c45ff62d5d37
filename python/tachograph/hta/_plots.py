"""Figures of the answers, through plotly where it is installed; where it is not, one sentence says so and the frame is
all there is."""

from __future__ import annotations

import warnings
from typing import Any


def _plotly() -> Any:
    try:
        import plotly.graph_objects
        import plotly.subplots
    except ImportError:
        warnings.warn(
            "visualize=True draws with plotly, which is not installed (pip install plotly); the frame is returned without a figure",
            stacklevel=4,
        )
        return None
    return plotly


def _show(figure: Any, renderer: str | None = None) -> None:
    figure.show(renderer=renderer) if renderer else figure.show()


def stacked_bars(frame: Any, x: str, parts: dict[str, str], title: str, unit: str) -> None:
    """One bar a row of the frame, divided into columns; parts: column -> label."""
    plotly = _plotly()
    if plotly is None or frame.empty:
        return
    go = plotly.graph_objects
    bars = [go.Bar(x=frame[x].astype(str), y=frame[column], name=label) for column, label in parts.items()]
    figure = go.Figure(bars)
    figure.update_layout(barmode="stack", title=title, xaxis_title=x, yaxis_title=unit)
    _show(figure)


def bars(frame: Any, x: str, y: str, title: str, color: str | None = None, facet: str | None = None) -> None:
    """Bars beside each other by colour; one panel for each value of facet."""
    plotly = _plotly()
    if plotly is None or frame.empty:
        return
    go = plotly.graph_objects
    panels = [(None, frame)] if facet is None else list(frame.groupby(facet, sort=False))
    figure = plotly.subplots.make_subplots(
        rows=len(panels), cols=1, subplot_titles=[f"{facet} {k}" for k, _ in panels] if facet else None
    )
    for row, (_, part) in enumerate(panels, 1):
        groups = [(y, part)] if color is None else list(part.groupby(color, sort=False))
        for label, group in groups:
            figure.add_trace(
                go.Bar(x=group[x].astype(str), y=group[y], name=str(label), showlegend=row == 1), row=row, col=1
            )
    figure.update_layout(barmode="stack" if color else "group", title=title, height=max(400, 300 * len(panels)))
    _show(figure)


def pies(panels: list[tuple[str, list[str], list[float]]], title: str, renderer: str | None = None) -> None:
    """A row of pies; a panel is its title, the labels and the values."""
    plotly = _plotly()
    panels = [p for p in panels if len(p[2])]
    if plotly is None or not panels:
        return
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = plotly.subplots.make_subplots(
        rows=rows, cols=columns, specs=[[{"type": "domain"}] * columns] * rows, subplot_titles=[p[0] for p in panels]
    )
    for i, (_, labels, values) in enumerate(panels):
        figure.add_trace(
            plotly.graph_objects.Pie(labels=labels, values=values, textinfo="percent"),
            row=i // columns + 1,
            col=i % columns + 1,
        )
    figure.update_layout(title=title, height=450 * rows)
    _show(figure, renderer)


def horizontal_bars(labels: list[str], values: Any, title: str, show: bool = True, path: str | None = None) -> None:
    """One bar a label; written to path as a picture or, where its ending is html, a page."""
    plotly = _plotly()
    if plotly is None or not labels:
        return
    figure = plotly.graph_objects.Figure(plotly.graph_objects.Bar(x=values, y=labels, orientation="h"))
    figure.update_layout(title=title, height=max(400, 22 * len(labels)))
    if path:
        figure.write_html(path) if path.endswith(".html") else figure.write_image(path)
    if show:
        _show(figure)


def histogram(values: Any, title: str, unit: str) -> None:
    plotly = _plotly()
    if plotly is None or len(values) == 0:
        return
    figure = plotly.graph_objects.Figure(plotly.graph_objects.Histogram(x=values))
    figure.update_layout(title=title, xaxis_title=unit, yaxis_title="count")
    _show(figure)


def areas(x: Any, curves: dict[str, Any], title: str, x_title: str, y_title: str, path: str | None = None) -> None:
    """Curves stacked on each other; saved as a page where path says so."""
    plotly = _plotly()
    if plotly is None:
        return
    go = plotly.graph_objects
    figure = go.Figure(
        [go.Scatter(x=x, y=y, name=name, stackgroup="one", mode="lines", line_shape="hv") for name, y in curves.items()]
    )
    figure.update_layout(title=title, xaxis_title=x_title, yaxis_title=y_title)
    if path:
        figure.write_html(path)
    _show(figure)


def timeline(
    events: Any,
    columns: tuple[str, str, str, str],
    title: str,
    height: int,
    hover: list[str],
    path: str | None = None,
    how: str = "inline",
) -> str | None:
    """Events as bars; columns: those of start, end, lane and colour. how: inline shows the figure, html is the page,
    file does neither."""
    if _plotly() is None or events.empty:
        return None
    import plotly.express

    start, end, lane, color = columns
    lanes = sorted(events[lane].unique())
    if events[start].dtype.kind != "M":  # the library draws moments; microseconds from the start stand for them
        import pandas

        events = events.assign(**{c: pandas.to_datetime(events[c], unit="us") for c in (start, end)})
    figure = plotly.express.timeline(
        events,
        x_start=start,
        x_end=end,
        y=lane,
        color=color,
        hover_data=hover,
        title=title,
        category_orders={lane: lanes},
        height=100 + max(height, 30) * len(lanes),
    )
    if path:
        figure.write_html(path) if path.endswith(".html") else figure.write_image(path)
    if how == "html":
        return figure.to_html(include_plotlyjs="cdn")
    if how == "inline":
        _show(figure)
    return None
