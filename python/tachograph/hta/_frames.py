"""From answers to pandas frames: microseconds, text without one Python object a row, columns for when there are no
rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tachograph
from tachograph import _read

UNKNOWN = 0xFFFFFFFF  # code of no text
NO_NUMBER = -(1 << 63)


def integers(table: tachograph.Table, name: str, unknown: int = -1) -> Any:
    """An integer column as int64; unknown stands for what the trace does not say."""
    import numpy

    return stood_for(numpy.asarray(table[name]), unknown)


def stood_for(values: Any, unknown: int) -> Any:
    """The same integers with another number for what is not known."""
    import numpy

    return numpy.where(values == NO_NUMBER, unknown, values) if len(values) and values.min() == NO_NUMBER else values


def reals(table: tachograph.Table, name: str, scale: float = 1.0) -> Any:
    """A number column as float64, NaN where unknown, divided by scale. Not to be written to."""
    import numpy

    values = numpy.asarray(table[name])
    if values.dtype == numpy.float64:
        return values if scale == 1.0 else values / scale
    result = values / scale
    if len(values) and values.min() == NO_NUMBER:
        result[values == NO_NUMBER] = numpy.nan
    return result


def micros(table: tachograph.Table, name: str) -> Any:
    """Nanoseconds as float64 microseconds."""
    return reals(table, name, 1000.0)


def taken(table: tachograph.Table, name: str) -> Any:
    """An integer column as a writable array, not copied. The caller owns the answer and keeps all of its columns."""
    import numpy

    table._make_writable()
    return numpy.asarray(table[name])


def narrow(table: tachograph.Table, name: str, unknown: int = -1) -> Any:
    """An integer column in the narrowest type that holds it. The caller owns the answer: the value for unknown is
    written into it."""
    import numpy

    values = taken(table, name)
    low, high = _read.replace_unknown(values, unknown)
    return values.astype(_kind_of(low, high) if len(values) else numpy.int8)


def as_micros(times: Any, zero: int = 0) -> Any:
    """Nanoseconds that only the caller needs as float64 microseconds from zero on, in their place; NaN where
    unknown."""
    import numpy

    _read.us_of(times, zero)
    return times.view(numpy.float64)


def taken_micros(table: tachograph.Table, name: str) -> Any:
    return as_micros(taken(table, name))


def codes(table: tachograph.Table, name: str) -> tuple[Any, list[str | None]]:
    """A text column as numbers into the list of its distinct texts, in the order in which they come."""
    import numpy

    column = table[name]
    numbers = numpy.empty(len(column), dtype=numpy.int64)
    return numbers, [column[row] for row in _read.numbered(column.codes(), numbers)]


def is_known(table: tachograph.Table, name: str) -> bool:
    """Has any row a text in this column? Most keys of args are those of few events."""
    import numpy

    raw = numpy.frombuffer(table[name].codes(), dtype=numpy.uint32)
    return len(raw) > 0 and int(raw.min()) != UNKNOWN


def texts(table: tachograph.Table, name: str) -> Any:
    """A text column as an object array."""
    import numpy

    numbers, distinct = codes(table, name)
    known = numpy.empty(len(distinct), dtype=object)
    known[:] = distinct
    return known[numbers] if len(distinct) else numpy.empty(0, dtype=object)


def labelled(numbers: Any, labels: Sequence[str], index: Any = None) -> Any:
    """A Series of texts, one Python object for all rows of a label."""
    import numpy
    import pandas

    known = numpy.empty(len(labels), dtype=object)
    known[:] = labels
    return pandas.Series(known[numbers], index=index, dtype=object, copy=False)


def renamed(texts_of: Any, rename: Callable[[str], str]) -> Any:
    """A Series of texts with each distinct one renamed, one Python object for all rows that have it: Series.map would
    make an object a row, and a copy of all texts on the way."""
    import numpy
    import pandas

    numbers, distinct = pandas.factorize(texts_of.to_numpy(dtype=object))
    known = numpy.empty(len(distinct), dtype=object)
    known[:] = [rename(text) for text in distinct]
    return pandas.Series(known[numbers], index=texts_of.index, dtype=object)


def _kind_of(low: int, high: int) -> Any:
    import numpy

    for kind in (numpy.int8, numpy.int16, numpy.int32):
        if numpy.iinfo(kind).min <= low and high <= numpy.iinfo(kind).max:
            return kind
    return numpy.int64


def small(values: Any) -> Any:
    """The same integers in the narrowest type that holds them, as HTA keeps its columns."""
    import numpy

    if len(values) == 0:
        return values.astype(numpy.int8)
    return values.astype(_kind_of(values.min(), values.max()), copy=False)


def at(values: Any, places: Any) -> Any:
    """The values at these places; places None: all of them, not copied."""
    return values if places is None else values[places]


def owned(values: Any) -> Any:
    """An array that keeps no answer of the engine alive and that may be written to."""
    return values if values.flags.writeable else values.copy()


@functools.lru_cache(maxsize=64)
def _names(names: tuple[str, ...]) -> Any:
    import pandas

    return pandas.Index(list(names))


@functools.cache
def _maker() -> Callable[..., Any] | None:
    """What pandas from 3.0 on has for libraries with complete columns: it looks at none of them, which takes a
    twentieth of the time."""
    try:
        from pandas.api.internals import create_dataframe_from_blocks
    except ImportError:
        return None
    return create_dataframe_from_blocks


def _column(values: Any) -> Any:
    import numpy

    if isinstance(values, list):
        return numpy.array(values, dtype=object if any(isinstance(v, str) for v in values) else None)
    return owned(values)


def frame(columns: dict[Any, Any], index: Any = None) -> Any:
    """A DataFrame; texts stay Python objects whatever the version of pandas makes of them by itself. Columns of one
    kind may come together: their names as a tuple, and an array of two dimensions, a row a column."""
    import numpy
    import pandas

    made = {
        (name,) if isinstance(name, str) else name: _column(values).reshape(
            1 if isinstance(name, str) else len(name), -1
        )
        for name, values in columns.items()
    }
    names = tuple(name for several in made for name in several)
    if index is None:
        index = pandas.RangeIndex(next(iter(made.values())).shape[1])
    make = _maker()
    if make is None:
        rows = [row for block in made.values() for row in block]
        return pandas.DataFrame(
            {name: pandas.Series(row, index=index, dtype=row.dtype, copy=False) for name, row in zip(names, rows)},
            index=index,
            copy=False,
        )
    blocks, place = [], 0
    for block in made.values():
        blocks.append((block, numpy.arange(place, place + len(block))))
        place += len(block)
    return make(blocks, columns=_names(names).view(), index=index)


def levels(columns: Sequence[Sequence[Any]], names: Sequence[str | None]) -> Any:
    """A MultiIndex of short columns; pandas' own ways to make one take milliseconds."""
    import pandas

    places = [{value: place for place, value in enumerate(sorted(set(values)))} for values in columns]
    codes = [[place[value] for value in values] for place, values in zip(places, columns)]
    return pandas.MultiIndex(
        levels=[pandas.Index(list(place)) for place in places], codes=codes, names=names, verify_integrity=False
    )


def empty(kinds: Sequence[tuple[str, str]]) -> Any:
    """A frame of these columns without a row."""
    import pandas

    return pandas.DataFrame({name: pandas.Series([], dtype=kind) for name, kind in kinds})


def stacked(frames: Sequence[Any], kinds: Sequence[tuple[str, str]], renumber: bool = True) -> Any:
    """Frames of ranks, one below the other, numbered again; an empty frame of the right columns when there is none."""
    import pandas

    there = [f for f in frames if f is not None and len(f)]
    if len(there) == 1:
        return there[0]
    return pandas.concat(there, ignore_index=renumber) if there else empty(kinds)


def described(values: Any) -> dict[str, float]:
    """count, mean, std, min, quartiles and max, as from pandas' describe: sample deviation, linear
    interpolation."""
    import numpy

    if len(values) == 0:
        return {"count": 0.0, **dict.fromkeys(("mean", "std", "min", "25%", "50%", "75%", "max"), numpy.nan)}
    quartiles = numpy.percentile(values, [0, 25, 50, 75, 100])
    return {
        "count": float(len(values)),
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(values) > 1 else numpy.nan,
        **dict(zip(("min", "25%", "50%", "75%", "max"), map(float, quartiles))),
    }


DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
