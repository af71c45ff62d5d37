"""Tools for agents: pages, types, and no file outside of the roots. The protocol: where the package mcp is."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tachograph._mcp import tools


def document(durations):
    """Steps one after the other, each with an operator that takes half of it; us."""
    events, at = [], 0
    for i, dur in enumerate(durations):
        base = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**base, "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": at, "dur": dur})
        events.append(
            {**base, "cat": "cpu_op", "name": f"aten::op{i % 2}" + "x" * 500 * (i == 3), "ts": at, "dur": dur / 2}
        )
        at += dur
    return json.dumps({"traceEvents": events})


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "ranks").mkdir(parents=True)
    (folder / "a.json").write_text(document([100, 100, 100, 100]))
    (folder / "b.json").write_text(document([200, 200, 200, 200]))
    (folder / "text.txt").write_text("no trace")
    (tmp_path / "secret.json").write_text(document([1]))
    return folder


@pytest.fixture
def traces(root):
    return tools.Traces([str(root)])


def test_the_files_listed_may_be_traces(traces, root):
    """By their end, and what is small by its content; folders lead to more. Other files are left out before the
    limit counts."""
    for name, text in {
        "conditions.json": "{}",
        "a-empty.json": "",
        "bare.json": '[{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]',
        "large.json": "{" + " " * 2_000_000 + "}",  # not looked into
        "ranks.tsum": "",
        "run.tacho": "",
        "snapshot.pickle": "",
        "train.py": "",
        "model.pt": "",
        ".hidden.json": "{}",
    }.items():
        (root / name).write_text(text)
    for name in (".git", "__pycache__"):
        (root / name).mkdir()
    (root / "packed.json.gz").write_bytes(b"\x1f\x8b")
    there = [os.path.basename(file["path"]) for file in traces.files("", 100)]
    assert there == [
        "a.json",
        "b.json",
        "bare.json",
        "large.json",
        "packed.json.gz",
        "ranks",
        "ranks.tsum",
        "run.tacho",
        "snapshot.pickle",
    ]
    assert [os.path.basename(file["path"]) for file in traces.files("", 3)] == there[:3]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.json",
        "{top}/secret.json",
        "link.json",
        "linked/secret.json",
        "/etc/passwd",
        "/dev/stdin",
        "{top}/root2",
    ],
)
def test_nothing_outside_of_the_roots_is_read(traces, root, path):
    (root / "link.json").symlink_to(root.parent / "secret.json")
    (root / "linked").symlink_to(root.parent)
    (root.parent / "root2").mkdir()
    with pytest.raises(tools.Refused, match="outside of the roots"):
        traces.opened(path.format(top=root.parent))


def test_a_folder_with_a_link_out_of_the_roots_is_refused(traces, root):
    (root / "ranks" / "rank0.json").symlink_to(root.parent / "secret.json")
    with pytest.raises(tools.Refused, match=r"rank0\.json is a link out of the roots"):
        traces.opened("ranks")
    assert str(root.parent / "secret.json") not in str(traces.files("ranks", 10))


@pytest.mark.parametrize(
    ("path", "said"), [("", "path is empty"), ("none.json", "there is no none.json"), ("text.txt", "text.txt")]
)
def test_what_cannot_be_opened_is_said(traces, path, said):
    with pytest.raises(tools.Refused, match=said):
        traces.opened(path)


def test_a_fifo_is_not_opened(traces, root):
    os.mkfifo(root / "pipe")
    with pytest.raises(tools.Refused, match="neither a file nor a folder"):
        traces.opened("pipe")


def test_answers_come_in_pages_with_types(traces):
    about = traces.opened("a.json")
    assert (about["ranks"], about["steps"], about["span_ns"], about["losses"]) == (1, 4, 400_000, [])
    first = traces.ask("a.json", "steps", {}, 3, 0)
    second = traces.ask("a.json", "steps", {}, 3, first["next_offset"])
    assert (len(first["rows"]), first["total_rows"], first["next_offset"]) == (3, 4, 3)
    assert (len(second["rows"]), second["next_offset"]) == (1, -1)
    names = [column["name"] for column in first["columns"]]
    column = first["columns"][names.index("total_ns")]
    assert (column["type"], column["unit"]) == ("int", "ns") and column["meaning"].startswith("length of the step")
    assert [row[names.index("total_ns")] for row in first["rows"] + second["rows"]] == [100_000] * 4
    assert len(traces.ask("a.json", "ops", {"sort": "name"}, 10**9, 0)["rows"]) == 3
    assert max(len(row[0]) for row in traces.ask("a.json", "ops", {}, 20, 0)["rows"]) == tools.CELL_MOST
    json.dumps([first, second], allow_nan=False)


def test_wrong_requests_say_what_there_is(traces):
    for call, said in (
        (lambda: traces.ask("a.json", "stepz", {}, 1, 0), "is no question: call questions"),
        (lambda: traces.ask("a.json", "steps", {"file": "x"}, 1, 0), "has no argument 'file': it takes by"),
        (lambda: traces.ask("a.json", "steps", {"where": "dur >"}, 1, 0), "where"),
        (lambda: traces.ask("a.json", "steps", {}, 0, 0), "at least 1 row"),
        (lambda: traces.ask("a.json", "kernels", {}, 1, 0), "device"),
        (lambda: tools.explain("nothing at all"), "is the name of no question"),
        (lambda: tools.questions_page("stepz"), "is no question"),
        (lambda: traces.diff("a.json", "b.json", "name", [], 1, 0), "by is step"),
    ):
        with pytest.raises(tools.Refused, match=said):
            call()


def test_diff_findings_what_if_and_explain(traces):
    found = traces.diff("a.json", "b.json", "step", ["step.p50 > +50%", "step.p50 > +150%"], 2, 0)
    assert "slower" in found["headline"] and "100 → 200 us a step" in found["headline"]
    assert len(found["failed"]) == 1 and len(found["page"]["rows"]) == 2 and found["page"]["next_offset"] == 2
    assert isinstance(traces.findings("a.json", 3), list)
    then = traces.what_if("a.json")
    assert then["step_ns"] == 100_000
    for cure in then["cures"]:
        assert cure["step_ns_then"] == 100_000 - cure["saving_ns_a_step"]
    assert {"kind": "question", "of": "steps", "meaning": "each step, and how its time divides into eight parts that add up", "unit": ""} in tools.explain("steps")  # fmt: skip
    assert any(entry["kind"] == "column" and entry["unit"] == "ns" for entry in tools.explain("total_ns"))
    assert len(tools.questions_page("")) > 30 and tools.questions_page("steps")[0]["columns"]


def test_few_traces_stay_open_and_a_changed_file_is_read_anew(traces, root):
    for i in range(6):
        (root / f"{i}.json").write_text(document([100 + i]))
        traces.opened(f"{i}.json")
    assert len(traces._open) == tools.OPEN_AT_ONCE
    (root / "5.json").write_text(document([7, 7]))
    assert traces.opened("5.json")["steps"] == 2


def test_the_command_says_what_is_missing(tachograph, tmp_path):
    import importlib.util

    env = {"TACHOGRAPH_PYTHON": sys.executable}
    done = tachograph("mcp", "no-such-folder", env=env)
    assert done.returncode == 2 and "the root 'no-such-folder' is no folder" in done.stderr
    if importlib.util.find_spec("mcp") is None:
        done = tachograph("mcp", tmp_path, env=env)
        assert done.returncode == 4 and "pip install 'tachograph[mcp]'" in done.stderr


def test_the_protocol(traces):
    pytest.importorskip("mcp")
    from mcp import Client
    from tachograph._mcp.server import make_server

    async def talk():
        async with Client(make_server(traces)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            answer = await client.call_tool("ask", {"path": "a.json", "question": "steps", "limit": 1})
            refused = await client.call_tool("open", {"path": "../secret.json"})
            return names, answer, refused

    names, answer, refused = asyncio.run(talk())
    assert names == {"files", "open", "questions", "ask", "findings", "explain", "diff", "what_if"}
    assert answer.structured_content["total_rows"] == 4 and len(answer.structured_content["rows"]) == 1
    assert refused.is_error and "outside of the roots" in refused.content[0].text


def test_a_refused_call_is_the_clients_and_not_logged(root):
    pytest.importorskip("mcp")
    server = subprocess.Popen(
        [sys.executable, "-m", "tachograph._mcp", root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def call(number, method, **params):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    who = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call(1, "initialize", **who)
    for number, path in enumerate(("../secret.json", "not-there.json", "text.txt"), 2):
        assert call(number, "tools/call", name="open", arguments={"path": path})["result"]["isError"]
    assert server.communicate(timeout=600)[1] == "" and server.returncode == 0


def test_reading_loads_nothing_of_it():
    code = "import sys, tachograph; print('mcp' in sys.modules, 'tachograph._mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
