"""What makes the numbers of an answer those of a frame, in place: against the same worked out value by value."""

import math
import random

import pytest

numpy = pytest.importorskip("numpy")
pytest.importorskip("pandas")

from tachograph import _read
from tachograph.hta.analyzers import trace_counters

UNKNOWN = -(1 << 63)


def test_nanoseconds_become_microseconds_in_their_place():
    times = [0, 1, -1, 1500, 123456789012345678, UNKNOWN, (1 << 62) + 1]
    values = numpy.array(times, dtype=numpy.int64)
    assert _read.us_of(values, 500) is None
    expected = [math.nan if t == UNKNOWN else float(t - 500) / 1000.0 for t in times]
    assert numpy.array_equal(values.view(numpy.float64), expected, equal_nan=True)


def test_looking_up_takes_the_nearest_there_is_and_may_go_over_its_places():
    places = numpy.array([7, 5, 6, 4, 8, UNKNOWN, 1 << 62], dtype=numpy.int64)
    assert _read.look_up(places, 5, numpy.array([10, 20, 30], dtype=numpy.int64), places) is True
    assert places.tolist() == [30, 10, 20, 10, 30, 10, 30]


def test_looking_up_says_whether_it_came_upon_the_unknown():
    values, out = numpy.array([10, UNKNOWN], dtype=numpy.int64), numpy.zeros(2, dtype=numpy.int64)
    assert _read.look_up(numpy.array([0, 0]), 0, values, out) is True
    assert _read.look_up(numpy.array([0, 1]), 0, values, out) is False
    assert out.tolist() == [10, UNKNOWN]


@pytest.mark.parametrize(
    "bad",
    [
        numpy.zeros(2),
        numpy.zeros(2, dtype=numpy.int32),
        numpy.zeros((2, 2), dtype=numpy.int64),
        numpy.zeros(4, dtype=numpy.int64)[::2],
        [1, 2],
    ],
)
def test_other_arrays_are_refused(bad):
    good = numpy.zeros(2, dtype=numpy.int64)
    for call in (
        lambda: _read.us_of(bad, 0),
        lambda: _read.look_up(bad, 0, good, good),
        lambda: _read.look_up(good, 0, bad, good),
        lambda: _read.look_up(good, 0, good, bad),
    ):
        with pytest.raises((TypeError, ValueError, BufferError)):
            call()


def test_no_values_and_lengths_that_differ_are_refused():
    none, two = numpy.zeros(0, dtype=numpy.int64), numpy.zeros(2, dtype=numpy.int64)
    for args in ((two, 0, none, two), (two, 0, two, none)):
        with pytest.raises(ValueError):
            _read.look_up(*args)
    fixed = numpy.zeros(2, dtype=numpy.int64)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _read.us_of(fixed, 0)


def test_time_on_a_full_queue_is_that_of_the_rows_that_are_full():
    import pandas

    rng = random.Random(11)
    for _ in range(200):
        rows = [(rng.randrange(3), rng.randrange(50), rng.randrange(4)) for _ in range(rng.randrange(1, 25))]
        rows.sort(key=lambda row: row[:2])
        frame = pandas.DataFrame(rows, columns=["stream", "ts", "queue_length"])
        expected = {}
        for row, (stream, ts, length) in enumerate(rows):
            if length >= 2:
                until = rows[row + 1][1] if row + 1 < len(rows) and rows[row + 1][0] == stream else ts
                expected[stream] = expected.get(stream, 0) + until - ts
        assert dict(trace_counters._time_full(frame, 2)) == expected


def test_settling_puts_a_number_in_the_place_of_the_unknown_and_tells_the_reach():
    values = numpy.array([3, UNKNOWN, -2, 7], dtype=numpy.int64)
    assert _read.replace_unknown(values, -9) == (-9, 7) and values.tolist() == [3, -9, -2, 7]
    assert _read.replace_unknown(values, 0) == (-9, 7)
    assert _read.replace_unknown(numpy.zeros(0, dtype=numpy.int64), 5) == (0, 0)


def test_codes_are_numbered_as_they_come():
    codes = numpy.array([9, 4, 9, (1 << 32) - 1, 0, 4], dtype=numpy.uint32)
    out = numpy.zeros(6, dtype=numpy.int64)
    assert _read.numbered(codes.tobytes(), out) == [0, 1, 3, 4] and out.tolist() == [0, 1, 0, 2, 3, 1]
    assert _read.numbered(b"", numpy.zeros(0, dtype=numpy.int64)) == []
    with pytest.raises(ValueError):
        _read.numbered(codes.tobytes(), numpy.zeros(5, dtype=numpy.int64))
