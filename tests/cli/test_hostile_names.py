"""Names that would drive a terminal, deceive a reader or break a file: whatever writes them must take their power
away."""

import json
import re

import pytest

HOSTILE = [
    "\x1b[31mred\x1b[0m", "title\x1b]0;x\x07", "line\nbreak\r\ttab", "eight\u009b31mbits", "zero\u0000byte", "turned\u202eround", "iso\u2066late\u2069",
    "no\u200bwidth", "\ufeffmark", "para\u2029graph", "del\x7f", "<script>x</script>", "a|b`c`d", "=1+1", "a,b\"q\"", "'; DROP TABLE x;--", "half\ud800",
]  # fmt: skip
STEERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u0080-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
TABLES = {"text": [], "json": ["--json"], "csv": ["--format", "csv"], "md": ["--format", "md"]}


def events():
    for step in range(3):
        yield {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{step}",
            "pid": 1,
            "tid": 1,
            "ts": step * 100000,
            "dur": 99000,
        }
        for i, name in enumerate(HOSTILE):
            at, number = step * 100000 + i * 5000, 100 * step + i + 1
            host = {"ph": "X", "pid": 1, "tid": 1, "ts": at}
            link = {"correlation": number, "External id": number}
            yield {**host, "cat": "python_function", "name": f"{name}.py(3): {name}", "dur": 3200}
            yield {**host, "cat": "user_annotation", "name": name, "dur": 3100}
            yield {
                **host,
                "cat": "cpu_op",
                "name": name,
                "dur": 3000,
                "args": {"External id": number, "Call stack": name, "Input type": [name], "Input Dims": [[2]]},
            }
            yield {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 100, "dur": 50, "args": link}
            yield {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": 0,
                "tid": 7,
                "ts": at + 1000,
                "dur": 2000,
                "args": {**link, "device": 0, "stream": 7},
            }


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The same document twice: with every name escaped, and with its bytes as they are, one of them not UTF-8."""
    document = {
        "traceName": HOSTILE[0],
        "deviceProperties": [{"id": 0, "name": HOSTILE[0]}],
        "distributedInfo": {"backend": HOSTILE[1], "rank": 0, "world_size": 1},
        "traceEvents": [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": HOSTILE[3]}},
            *events(),
        ],
    }
    folder = tmp_path_factory.mktemp("hostile")
    escaped, raw = folder / "escaped.json", folder / "raw.json"
    escaped.write_text(json.dumps(document))
    raw.write_bytes(
        json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass").replace(b"half", b"h\xff\xc0\xaf\x9b")
    )
    return escaped, raw


def tame(done):
    text = done.stdout.decode("utf-8")  # strict: all of it is UTF-8
    found = STEERS.search(text)
    assert not found, (done.args, text[max(0, found.start() - 40) : found.end() + 10])
    assert not STEERS.search(done.stderr.decode("utf-8")), done.args
    return text


@pytest.mark.parametrize("form", TABLES)
def test_no_table_hands_a_name_to_the_terminal(tachograph, traces, form):
    questions = [row[0] for row in json.loads(tachograph("questions", "--json").stdout)["rows"]]
    answered = 0
    for trace in traces:
        for question in questions:
            done = tachograph("ask", trace, question, *TABLES[form], text=False)
            assert done.returncode in (0, 3), (question, done.stderr)
            text = tame(done)
            answered += done.returncode == 0 and "red" in text
            if form == "json" and done.returncode == 0:
                json.loads(text)
    assert answered > 20  # of the questions name something


def test_no_command_hands_a_name_to_the_terminal(tachograph, traces):
    for trace in traces:
        for words in (
            ["report"],
            ["report", "--json"],
            ["report", "--format", "md"],
            ["check"],
            ["top"],
            ["diff", trace],
            ["diff", trace, "--markdown"],
            ["diff", trace, "--json"],
        ):
            assert tame(tachograph(words[0], trace, *words[1:], text=False))
        assert "red" in tame(tachograph("sql", trace, "select name from slices", text=False))


def test_csv_keeps_every_row_and_every_line_end_of_a_name(tachograph, traces):
    text = tame(tachograph("ask", traces[0], "kernels", "--format", "csv", text=False))
    assert '"line\nbreak\r\ttab",kernel' in text and "eight\ufffd31mbits,kernel" in text and "'=1+1,kernel" in text


@pytest.mark.parametrize("form", ["csv", "folded", "speedscope"])
def test_exports_that_are_read_as_text_hold_none(tachograph, traces, tmp_path, form):
    for trace in traces:
        done = tachograph("export", trace, "--to", form, "-o", "-", text=False)
        assert done.returncode == 0 and "red" in tame(done)


def test_json_exports_say_the_same_names(tachograph, traces):
    """As escapes, so nothing is lost: a reader gets the characters that stood in the trace."""
    for form in ("chrome", "json", "speedscope"):
        text = tame(tachograph("export", traces[0], "--to", form, "-o", "-", text=False))
        json.loads(text)
        for name in ("\u009b", "\u202e", "\u200b", "\x1b"):
            assert f"\\u{ord(name):04x}" in text


def test_the_next_command_can_be_copied(tachograph, traces, tmp_path):
    """A path is quoted for the shell, and what steers a terminal does not stand in it."""
    (tmp_path / "a b;$(x)\x1b[2J.json").write_bytes(traces[0].read_bytes())
    text = tame(tachograph("report", "a b;$(x)\x1b[2J.json", text=False))
    assert "tachograph ask 'a b;$(x)\ufffd[2J.json' " in text
    (tmp_path / "-b'c.json").write_bytes(traces[0].read_bytes())
    assert "tachograph report './-b'\\''c.tacho'" in tachograph("convert", "./-b'c.json", "-o", "-b'c.tacho").stderr
    assert "tachograph ask 'x y.json' overview" in lacking(tachograph, tmp_path, "x y.json")


def lacking(tachograph, tmp_path, name):
    """The message when the trace lacks the data of a question."""
    (tmp_path / name).write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}'
    )
    done = tachograph("ask", name, "memory")
    assert done.returncode == 3
    return done.stderr


def test_a_failed_threshold_names_its_row_without_its_power(tachograph, traces, tmp_path):
    slower = json.loads(traces[0].read_text())
    for event in slower["traceEvents"]:
        if event.get("name", "").startswith("\x1b") and event.get("cat") == "kernel":
            event["dur"] *= 2
    (tmp_path / "slower.json").write_text(json.dumps(slower))
    done = tachograph(
        "diff",
        traces[0],
        tmp_path / "slower.json",
        "--fail-if",
        'kernel["\x1b[31mred\x1b[0m"].device > +5%',
        text=False,
    )
    assert done.returncode == 1 and b"threshold failed" in done.stderr
    tame(done)
