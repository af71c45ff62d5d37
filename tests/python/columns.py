"""What the columns of each answer hold, as the engine describes them."""

import tachograph as tg

QUESTIONS = tg.questions()
COLUMNS = {name: {c.name: c for c in q.columns} for name, q in QUESTIONS.items()}


def _is(question, column, test):
    info = COLUMNS[question].get(column)
    return info is not None and test(info)


def is_instant(question, column):
    """A time of the clock; the other times are lengths."""
    return _is(question, column, lambda c: c.role == "instant")


def is_time(question, column):
    return _is(question, column, lambda c: c.unit in ("ns", "us", "ms"))


def is_rate(question, column):
    return _is(question, column, lambda c: c.unit.endswith("/s"))


def is_running_number(question, column):
    """Slices, marks and tracks have numbers by the order of arrival, tracks by the order of their streams; an index of
    HTA is a row of its table."""
    numbers = ("slice", "event", "slice_or_mark", "track")
    return _is(question, column, lambda c: c.role in numbers or (c.role == "reference" and "index" in c.name))
