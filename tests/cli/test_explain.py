"""--explain: below the table, what each column means, in the words of the question; of a report, each figure."""

import json
import os
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")


def tachograph(*words):
    return subprocess.run([TACHOGRAPH, *map(str, words)], capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("explain") / "a.json"
    memory = {"Addr": 64, "Bytes": 512, "Device Type": 0, "Device Id": -1, "Total Allocated": 512}
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9}]
    events += [
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 2,
            "s": "t",
            "args": memory,
        }
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize("command, question", [("top", "top"), ("memory", "memory_blocks")])
def test_columns_are_explained(trace, command, question):
    plain = json.loads(tachograph(command, trace, "--json").stdout)
    explained = json.loads(tachograph(command, trace, "--explain", "--json").stdout)
    rows = json.loads(tachograph("questions", question, "--json").stdout)["rows"]
    meanings = {row[1]: row[5] for row in rows if row[0] == "column"}
    assert explained["rows"] == plain["rows"]
    more = [note for note in explained["notes"] if note not in plain["notes"]]
    assert len(more) == len(plain["columns"])
    for column, note in zip(plain["columns"], more, strict=True):
        assert note.startswith(column["name"]) and note.endswith(": " + meanings[column["name"]])


def meanings_of(question):
    rows = json.loads(tachograph("questions", question, "--json").stdout)["rows"]
    return {row[1]: row[5] for row in rows if row[0] == "column"}


@pytest.mark.parametrize("form", [[], ["--format", "md"]])
def test_a_report_is_explained(trace, form):
    """Each line below it is a word, the meaning of a column, and which; the rest is the report as it was."""
    plain, explained = tachograph("report", trace, *form).stdout, tachograph("report", trace, "--explain", *form).stdout
    assert explained.startswith(plain)
    lines = [line for line in explained[len(plain) :].splitlines() if line.startswith("- ")]
    assert {line[2:].split(":")[0] for line in lines} >= {
        "step",
        "kernels of a step",
        "CPU operators",
        "no operator",
        "saves",
    }
    for line in lines:
        body, _, place = line.rpartition(" (")
        question, column = place.rstrip(")").split(".")
        assert body.endswith(": " + meanings_of(question)[column])


def test_a_diff_is_explained(trace):
    plain, explained = tachograph("diff", trace, trace).stdout, tachograph("diff", trace, trace, "--explain").stdout
    assert explained.startswith(plain)
    lines = [line for line in explained[len(plain) :].splitlines() if line.startswith("- ")]
    columns = json.loads(tachograph("diff", trace, trace, "--json").stdout)["columns"]
    assert [line[2:].split(":")[0] for line in lines] == [column["name"] for column in columns]
    ops = tachograph("diff", trace, trace, "--question", "ops", "--explain").stdout
    assert "note: calls: " + meanings_of("ops")["calls"] in ops and "self_device_ns (ns): " in ops


@pytest.mark.parametrize("words", [["report", "--json"], ["report", "--format", "html"], ["diff", "--json"]])
def test_where_there_is_no_place_for_it(trace, words):
    files = [trace] * (2 if words[0] == "diff" else 1)
    done = tachograph(words[0], *files, "--explain", *words[1:])
    assert done.returncode == 2 and "--explain is for" in done.stderr
