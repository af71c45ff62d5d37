"""Attributes of a trace and of an answer in Python: where the trace lies, which columns there are."""

import pytest
import tachograph as tg

TRACE = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}'


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "it's here.json"
    path.write_text(TRACE)
    return path


def test_a_trace_shows_its_path(path, tmp_path):
    with tg.open(path) as trace:
        assert repr(trace) == f"<tachograph.Trace {str(path)!r}>"
    assert repr(trace) == f"<tachograph.Trace {str(path)!r}>"  # closed
    assert repr(tg.open(str(path))) == f"<tachograph.Trace {str(path)!r}>"
    assert repr(tg.open_ranks(tmp_path, path)) == f"<tachograph.Trace {str(tmp_path)!r}, {str(path)!r}>"


def test_a_column_that_there_is_not_names_the_nearest_and_all(path):
    table = tg.open(path).ask("ops")
    for wrong, near in (("cals", "calls"), ("self_cpu", "self_cpu_ns"), ("flop", "flops")):
        with pytest.raises(KeyError) as refused:
            table[wrong]
        said = str(refused.value)
        assert said.startswith(f"ops has no column {wrong!r}; did you mean {near!r}?")
        assert all(column in said for column in table.columns) and "\\" not in said
    with pytest.raises(KeyError, match="ops has no column 'zzz'; it has name, group, calls,"):
        table["zzz"]
    with pytest.raises(KeyError, match="no column 'cals'"):
        table.column("cals")
    assert table["calls"][0] == table.column("calls")[0] == 1 and table.column(2).name == "calls"
