"""What is printed as the next thing to type works when it is typed: after answers and after errors, whatever was
given."""

import json
import pickle
import re
import shlex
import subprocess

import pytest

OPERATORS = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 20}]
LAUNCH = {
    "ph": "X",
    "cat": "cuda_runtime",
    "name": "cudaLaunchKernel",
    "pid": 1,
    "tid": 1,
    "ts": 12,
    "dur": 2,
    "args": {"correlation": 1},
}
KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "gemm",
    "pid": 0,
    "tid": 7,
    "ts": 20,
    "dur": 20,
    "args": {"device": 0, "stream": 7, "correlation": 1},
}
STEP = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 5, "dur": 50}
MEMORY = {
    "ph": "i",
    "s": "t",
    "cat": "cpu_instant_event",
    "name": "[memory]",
    "pid": 1,
    "tid": 1,
    "ts": 11,
    "args": {"Total Reserved": 0, "Total Allocated": 100, "Bytes": 100, "Addr": 64, "Device Id": -1, "Device Type": 0},
}
SEGMENT = {
    "device": 0,
    "address": 1 << 20,
    "total_size": 1 << 20,
    "allocated_size": 0,
    "active_size": 0,
    "stream": 0,
    "segment_type": "small",
    "blocks": [],
}


def text(*events, **more):
    return json.dumps({**more, "traceEvents": events}).encode()


INPUTS = {  # contents by name; names are awkward to a shell, too
    "operators.json": text(*OPERATORS),
    "kernels alone.json": text(KERNEL),
    "it's launched.json": text(STEP, *OPERATORS, LAUNCH, KERNEL),
    "$memory;.json": text(MEMORY),
    "annotation.json": text({**STEP, "name": "mine"}),
    "-dash.json": text(*OPERATORS),
    "one of four.json": text(*OPERATORS, LAUNCH, KERNEL, distributedInfo={"rank": 2, "world_size": 4}),
    "cut.json": text(*OPERATORS, LAUNCH, KERNEL)[:-40],
    "snapshot.pickle": pickle.dumps({"segments": [SEGMENT], "device_traces": [[]]}),
    "empty.json": b"",
    "no events.json": text(),
    "text.json": b"hello",
}
COMMANDS = [
    ["report"],
    ["check"],
    ["top"],
    ["top", "--device"],
    ["memory"],
    ["sql", "SELEC"],
    ["sql", "SELECT 1"],
    ["convert", "-o", "out.tacho"],
    ["export", "--to", "chrome", "-o", "out.json"],
    ["export", "--to", "crome"],
    ["summarize", "-o", "out.tsum"],
    ["merge", "-o", "out.tsum"],
    ["ask", "opps"],
    ["ask"],
    ["ask", "ops", "--by", "shapes"],
    ["ask", "steps", "--step", "99"],
    ["ask", "kernels", "--rank", "9"],
    ["nonsense"],
]


def serve(tachograph_path, folder, call):
    """`view` serves on: it has worked when it prints its address, and is ended then."""
    command = [tachograph_path, *call, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    with subprocess.Popen(command, **pipes) as server:
        address = server.stdout.readline()
        server.terminate()
        rest, errors = server.communicate(timeout=600)
    assert not address or json.loads(address)["url"].startswith("http://127.0.0.1:")
    return subprocess.CompletedProcess(command, server.returncode, address + rest, errors)


def suggested(done):
    return set(re.findall(r"(?:next: |^ *|`)(tachograph [^`\n]*)", done.stdout + done.stderr, re.M)) - {""}


@pytest.fixture
def try_all(tachograph, tachograph_path, tmp_path):
    """Type a call and what it suggests; what is suggested once is tried once."""
    tried = {}

    def type_it(*typed):
        done = tachograph(*typed)
        assert done.returncode in range(5), (typed, done.returncode)
        for words in suggested(done):
            if words not in tried:
                call = shlex.split(words)[1:]
                views = call[0] == "view"
                tried[words] = serve(tachograph_path, tmp_path, call) if views else tachograph(*call)
            assert tried[words].returncode == 0, f"{typed} suggests {words}, which says: {tried[words].stderr}"
        return done

    return type_it, tried


@pytest.fixture
def inputs(tachograph, tmp_path):
    for name, content in INPUTS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "run of two").mkdir()
    for rank in range(2):
        (tmp_path / "run of two" / f"rank{rank}.json").write_bytes(
            text(STEP, *OPERATORS, LAUNCH, KERNEL, distributedInfo={"rank": rank, "world_size": 2})
        )
    long = tmp_path.joinpath(*["it's long " * 20] * 4)
    long.mkdir(parents=True)
    (long / "x.json").write_bytes(text(*OPERATORS))
    for source, target in (("run of two", "two ranks.tsum"), ("operators.json", "one.tsum")):
        assert tachograph("summarize", source, "-o", target).returncode == 0
    assert tachograph("convert", "operators.json", "-o", "x.tacho").returncode == 0
    return [*INPUTS, "run of two", str(long / "x.json"), "two ranks.tsum", "one.tsum", "x.tacho", "none.json"]


def test_commands(inputs, try_all):
    type_it, tried = try_all
    for path in ["./-dash.json" if name == "-dash.json" else name for name in inputs]:
        for command, *more in COMMANDS:
            type_it(command, path, *more)
        type_it("diff", path, path)
        type_it("diff", "operators.json", path, "--by", "memory", "--fail-if", "memory.peak > 1%")
        type_it("diff", "operators.json", path)
    assert (
        len(tried) > 40
        and any("it'\\''s long" in words for words in tried)
        and "tachograph ask 'two ranks.tsum' ranks" in tried
    )


def test_questions(tachograph, inputs, try_all):
    type_it, tried = try_all
    for question, _ in json.loads(tachograph("questions", "--json").stdout)["rows"]:
        for path in ("operators.json", "kernels alone.json", "snapshot.pickle", "two ranks.tsum", "run of two"):
            type_it("ask", path, question)
            type_it("diff", path, path, "--question", question)
    assert len(tried) >= 8


def test_a_finding_of_a_trace_without_lines(tachograph, tmp_path, try_all):
    """The lines of the program would be the thing to look at; there are none."""
    items = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::item",
            "pid": 1,
            "tid": 1,
            "ts": 1000 + 20_000 * step + 40 * i,
            "dur": 30,
        }
        for step in range(6)
        for i in range(400)
    ]
    steps = [{**STEP, "name": f"ProfilerStep#{step}", "ts": 990 + 20_000 * step, "dur": 16_100} for step in range(6)]
    (tmp_path / "items.json").write_bytes(text(*steps, *items))
    done = try_all[0]("report", "items.json")
    assert (
        "per-element-item" in done.stdout.split("medium")[0]
        and "tachograph ask items.json ops --limit 20" in done.stdout
    )


def test_what_a_summary_is_asked_instead(tachograph, inputs):
    for command in (
        ["report"],
        ["sql", "SELECT 1"],
        ["convert", "-o", "y.tacho"],
        ["export", "--to", "folded"],
        ["top"],
        ["memory"],
        ["ask", "ops"],
    ):
        done = tachograph(command[0], "one.tsum", *command[1:])
        assert (
            done.returncode == 3 and done.stderr.endswith("next: tachograph ask one.tsum ranks\n") and done.stdout == ""
        ), command
