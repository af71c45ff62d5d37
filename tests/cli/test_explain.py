"""--explain of top and memory: below the table, what each of its columns means, in the words of the question."""

import json
import os
import subprocess

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")


def tachograph(*words):
    return subprocess.run([TACHOGRAPH, *map(str, words)], capture_output=True, text=True, timeout=60)


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
