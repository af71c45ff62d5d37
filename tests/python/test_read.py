"""The Python package, on small traces written here: every number below was worked out by hand from EVENTS."""

import gzip
import json
import pathlib
import subprocess
import sys
import threading

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest
import tachograph as tg

# Two steps of 100 µs; aten::add runs 10 and 20 µs in them, aten::mul 5.5 µs in the second; the name needs escaping.
EVENTS = [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 1, "tid": 1, "ts": 100, "dur": 100},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10, "dur": 10},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 110, "dur": 20},
    {"ph": "X", "cat": "cpu_op", "name": "<script>alert('&')</script>", "pid": 1, "tid": 1, "ts": 150, "dur": 5.5},
    {"ph": "i", "s": "t", "cat": "cpu_op", "name": "mark", "pid": 1, "tid": 1, "ts": 160},
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return path


@pytest.fixture
def trace(path):
    with tg.open(path) as trace:
        yield trace


def durations(table):
    return {row["name"]: row["cpu_ns"] for row in table.to_dicts()}


OPS = {"aten::add": 30000, "<script>alert('&')</script>": 5500}


# ---- tables ------------------------------------------------------------------------------------------------


def test_rows_as_dicts(trace):
    table = trace.ask("ops")
    assert durations(table) == OPS
    assert len(table) == 2
    assert table.question == "ops"
    assert table.columns == [c.name for c in tg.questions()["ops"].columns]


def test_arguments_are_texts(trace):
    assert durations(trace.ask("ops", step=1)) == {"aten::add": 10000}
    assert durations(trace.ask("ops", step=[1, 2])) == OPS
    assert durations(trace.ask("ops", where="cpu_ns < 6us", limit=None)) == {"<script>alert('&')</script>": 5500}
    assert [row["name"] for row in trace.ask("ops", sort="cpu_ns", limit=1)] == ["aten::add"]


def test_column_is_a_view_of_the_numbers(trace):
    column = trace.ask("ops", sort="cpu_ns")["cpu_ns"]
    assert (column.name, column.unit, column.type) == ("cpu_ns", "ns", "int")
    first, second = numpy.asarray(column), numpy.asarray(column)
    assert first.dtype == numpy.int64
    assert first.tolist() == [30000, 5500]
    assert first.__array_interface__["data"] == second.__array_interface__["data"]  # no copy
    assert not first.flags.writeable
    assert list(column) == [30000, 5500]
    assert column[-1] == 5500
    with pytest.raises(IndexError):
        column[2]


def test_view_outlives_table_and_trace(path):
    trace = tg.open(path)
    view = numpy.asarray(trace.ask("ops", sort="cpu_ns")["cpu_ns"])
    trace.close()
    assert view.tolist() == [30000, 5500]


def test_text_column(trace):
    column = trace.ask("ops", sort="cpu_ns")["name"]
    assert list(column) == list(OPS)
    with pytest.raises(BufferError):
        memoryview(column)


def test_unknown_is_none(trace):
    rows = trace.ask("events", by="mark").to_dicts()
    mark = next(row for row in rows if row["name"] == "mark")
    assert mark["dur_ns"] is None
    assert mark["start_ns"] == 160000


def test_no_such_column(trace):
    table = trace.ask("ops")
    with pytest.raises(KeyError, match="speed"):
        table["speed"]
    with pytest.raises(KeyError):
        table.column(len(table.columns))
    with pytest.raises(KeyError):
        table[1.5]


def test_repr_and_html_escape(trace):
    table = trace.ask("ops")
    assert "aten::add" in repr(table)
    html = table._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in html
    assert "30000" in html and "<small>ns</small>" in html


def test_repr_of_many_rows_is_short(tmp_path):
    path = tmp_path / "many.json"
    path.write_text(
        json.dumps(
            [{"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1} for i in range(500)]
        )
    )
    table = tg.open(path).ask("events")
    assert len(table) == 500
    assert len(repr(table).splitlines()) < 80
    assert repr(table).endswith("500 rows")
    assert "50 of 500 rows" in table._repr_html_()


def test_empty_table(trace):
    table = trace.ask("ops", where='name = "none of this name"')
    assert len(table) == 0
    assert table.to_dicts() == []
    assert numpy.asarray(table["cpu_ns"]).shape == (0,)
    assert len(table.to_pandas()) == 0
    assert pyarrow.table(table).num_rows == 0


# ---- other libraries take the table ------------------------------------------------------------------------


def test_pyarrow(trace):
    table = trace.ask("ops", sort="cpu_ns")
    arrow = pyarrow.table(table)
    assert arrow.column_names == table.columns
    assert arrow["cpu_ns"].to_pylist() == [30000, 5500]
    assert arrow["name"].to_pylist() == list(OPS)
    assert pyarrow.record_batch(table)["calls"].to_pylist() == [2, 1]
    assert pyarrow.schema(table).field("cpu_ns").type == pyarrow.int64()
    arrow.validate(full=True)
    assert table.to_arrow().equals(arrow)


def test_arrow_does_not_copy_and_outlives_everything(path):
    trace = tg.open(path)
    table = trace.ask("ops", sort="cpu_ns")
    address = numpy.asarray(table["cpu_ns"]).__array_interface__["data"][0]
    arrow = pyarrow.record_batch(table)
    assert arrow["cpu_ns"].buffers()[1].address == address
    trace.close()
    del table, trace
    assert arrow["cpu_ns"].to_pylist() == [30000, 5500]


def test_unknown_is_null_in_arrow(trace):
    arrow = pyarrow.table(trace.ask("events", by="mark", where='name = "mark"'))
    assert arrow["dur_ns"].to_pylist() == [None]
    assert arrow["start_ns"].to_pylist() == [160000]


def test_polars(trace):
    frame = trace.ask("ops").to_polars().sort("cpu_ns")
    assert frame["cpu_ns"].to_list() == [5500, 30000]
    assert frame.equals(polars.DataFrame(trace.ask("ops")).sort("cpu_ns"))


def test_duckdb(trace):
    ops = trace.ask("ops")  # noqa: F841  duckdb finds it by its name
    assert duckdb.sql("SELECT sum(cpu_ns) FROM ops").fetchall() == [(35500,)]
    assert duckdb.sql("SELECT name FROM ops ORDER BY cpu_ns DESC LIMIT 1").fetchall() == [("aten::add",)]


def test_pandas(trace):
    frame = trace.ask("ops", sort="cpu_ns").to_pandas()
    assert frame["cpu_ns"].dtype == numpy.int64
    assert frame["name"].tolist() == list(OPS)
    marks = trace.ask("events", by="mark", where='name = "mark"').to_pandas()
    assert marks["dur_ns"].isna().tolist() == [True]
    assert str(marks["dur_ns"].dtype) == "Int64"


@pytest.mark.skipif(not hasattr(pandas.DataFrame, "from_arrow"), reason="pandas before 3 has no from_arrow")
def test_pandas_from_arrow(trace):
    assert pandas.DataFrame.from_arrow(trace.ask("ops"))["cpu_ns"].sum() == 35500


# ---- the rest of a trace -----------------------------------------------------------------------------------


def test_questions_match_the_list():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
    import defs

    listed = defs.questions()
    important = dict(args for macro, args in defs.read("src/catalog/questions_all.def") if macro == "IMPORTANT")
    assert len(important) >= 25
    assert list(tg.questions()) == [q.name for q in listed]
    for question in listed:
        found = tg.questions()[question.name]
        assert found.meaning == question.meaning
        answers = {c.name for c in found.columns if c.important}
        assert answers == set(filter(None, important.get(question.name, "").split(",")))
        assert [c[:4] for c in found.columns] == [(n, t.lower(), u, m) for n, t, u, m in question.columns]
        assert [tuple(a) for a in found.arguments] == question.arguments + defs.common_arguments()


def test_columns_have_their_roles_and_merge_rules():
    columns = {(q.name, c.name): c for q in tg.questions().values() for c in q.columns}
    assert columns["kernels", "name"][4:] == ("key", "key", "", "", True)
    assert columns["kernels", "total_ns"][4:] == ("value", "sum", "", "", True)
    assert columns["kernels", "std_ns"][4:] == ("value", "std", "total_ns", "calls", False)
    assert columns["gaps", "start_ns"][4:] == ("instant", "", "", "", False)
    assert columns["events", "track"].role == "track" and columns["steps", "rank"].role == "rank"
    for (question, _), c in columns.items():
        assert all((question, other) in columns for other in (c.of, c.by) if other and c.fold != "equal_to")


def test_sql(trace):
    table = trace.sql("SELECT name, sum(dur_ns) AS ns FROM slices WHERE name LIKE 'aten%' GROUP BY name")
    assert table.to_dicts() == [{"name": "aten::add", "ns": 30000}]


def test_report(trace):
    assert "ProfilerStep" in trace.report() or "step" in trace.report()
    assert isinstance(json.loads(trace.report("json")), dict)


def test_save_and_open_again(trace, tmp_path):
    trace.save(tmp_path / "copy.tacho")
    with tg.open(tmp_path / "copy.tacho") as again:
        assert again.ask("ops").to_dicts() == trace.ask("ops").to_dicts()
        assert again.ask("events").to_dicts() == trace.ask("events").to_dicts()


def test_export(trace, tmp_path):
    trace.export(tmp_path / "copy.json")
    written = json.loads((tmp_path / "copy.json").read_text())
    assert sorted(e["name"] for e in written["traceEvents"] if e["ph"] == "X") == sorted(
        e["name"] for e in EVENTS if e["ph"] == "X"
    )
    trace.export(tmp_path / "stacks", to="folded")
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


@pytest.mark.parametrize("name", ["chrome", "csv", "no such format"])  # one of traces, one of tables too, and none
def test_a_report_in_a_format_that_it_cannot_have(trace, name):
    with pytest.raises(
        tg.TachographError, match=f"^'{name}' is not a format the report can be written in: text, json, md, html$"
    ):
        trace.report(format=name)


@pytest.mark.parametrize(
    "name, to",
    [
        ("a.json", "chrome"),
        ("a.speedscope.json", "speedscope"),
        ("a.pftrace", "perfetto"),
        ("a.perfetto-trace", "perfetto"),
        ("a.folded", "folded"),
        ("a.csv", "csv"),
    ],
)
def test_the_name_says_the_format(trace, tmp_path, name, to):
    args = {"trace_name": "a"} if to == "speedscope" else {}  # which says its own name inside
    trace.export(tmp_path / name, **args)
    trace.export(tmp_path / "given", to=to, **args)
    assert (tmp_path / name).read_bytes() == (tmp_path / "given").read_bytes()


def test_failed_export_leaves_nothing(trace, tmp_path):
    with pytest.raises(
        tg.TachographError,
        match="'no such format' is not a format a trace can be written in: json, csv, chrome, perfetto, folded, speedscope",
    ):
        trace.export(tmp_path / "x", to="no such format")
    with pytest.raises(ValueError, match="unknown extension"):
        trace.export(tmp_path / "x.docx")
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]


def test_losses(tmp_path):
    path = tmp_path / "cut.json"
    text = json.dumps({"traceEvents": EVENTS})
    path.write_text(text[: text.index('"mark"')])
    with tg.open(path) as trace:
        assert trace.ask("ops").losses == [
            dict(
                loss="cut_end",
                count=1,
                offset=text.rindex("{", 0, text.index('"mark"')),
                meaning="the input ends in the middle of an event",
            )
        ]
        assert [row["loss"] for row in trace.losses] == ["cut_end"]


def test_compressed_and_directory(tmp_path):
    for rank in (0, 1):
        document = {"traceEvents": EVENTS, "distributedInfo": {"rank": rank, "world_size": 2}}
        (tmp_path / f"rank{rank}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    with tg.open(tmp_path, threads=2) as trace:
        assert durations(trace.ask("ops")) == {name: 2 * ns for name, ns in OPS.items()}
        assert durations(trace.ask("ops", rank=1)) == OPS


# ---- errors ------------------------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    with pytest.raises(tg.TachographError) as caught:
        tg.open(tmp_path / "none.json")
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.status == 4
    assert caught.value.offset is None
    assert "none.json" in str(caught.value)


def test_not_a_trace(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam,\n" * 20)
    with pytest.raises(tg.TachographError) as caught:
        tg.open(path)
    assert caught.value.code == "NOT_A_TRACE"
    assert caught.value.cause == "this is not a trace"


def test_wrong_requests(trace):
    for call in (
        lambda: trace.ask("no such question"),
        lambda: trace.ask("ops", colour="red"),
        lambda: trace.ask("ops", where="cpu_ns >"),
        lambda: trace.sql("DROP TABLE slices"),
    ):
        with pytest.raises(tg.TachographError) as caught:
            call()
        assert caught.value.status == 2
    with pytest.raises(TypeError):
        trace.ask(7)


def test_closed_trace(path):
    trace = tg.open(path)
    trace.close()
    trace.close()
    with pytest.raises(ValueError, match="closed"):
        trace.ask("ops")


def test_types_cannot_be_made_by_hand():
    for kind in (tg.Trace, tg.Table, tg.Column):
        with pytest.raises(TypeError):
            kind()


# ---- threads and progress ----------------------------------------------------------------------------------


def test_progress_is_called_and_can_stop(tmp_path):
    path = tmp_path / "large.json"
    event = '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
    path.write_text("[" + ",\n".join(event % i for i in range(200000)) + "]")
    seen = []
    tg.open(path, progress=lambda done, total: seen.append((done, total))).close()
    assert seen and all(0 <= done <= total == path.stat().st_size for done, total in seen)
    with pytest.raises(tg.TachographError) as caught:
        tg.open(path, progress=lambda done, total: False)
    assert caught.value.code == "CANCELLED"
    with pytest.raises(ZeroDivisionError):
        tg.open(path, progress=lambda done, total: 1 / 0)


def test_many_threads_ask_one_trace(path):
    trace = tg.open(path)
    wrong = []

    def ask():
        for _ in range(50):
            if durations(trace.ask("ops")) != OPS:
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_close_while_others_ask(path):
    trace = tg.open(path)
    answers = []

    def ask():
        try:
            while True:
                answers.append(durations(trace.ask("ops")))
        except ValueError:
            pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(answers) < 20:
        pass
    trace.close()
    for thread in threads:
        thread.join()
    assert all(answer == OPS for answer in answers)


def test_console_command(path):
    done = subprocess.run(
        [sys.executable, "-m", "tachograph", "ask", path, "ops", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["question"] == "ops"
    names = [c["name"] for c in answer["columns"]]
    assert {row[names.index("name")]: row[names.index("cpu_ns")] for row in answer["rows"]} == OPS


def test_a_zero_byte_is_refused_where_it_would_cut_a_text_short(trace, tmp_path):
    with pytest.raises(ValueError, match="zero byte"):
        trace.ask("ops", where='name == "a\0b"')
    with pytest.raises(ValueError, match="null byte"):
        trace.save(str(tmp_path / "a\0b.tacho"))
    with pytest.raises(ValueError, match="null byte"):
        tg.open("a\0b.json")
    assert not list(tmp_path.glob("a*"))
