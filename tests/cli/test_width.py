"""Tables at the width of a terminal, all questions of all golden traces: what answers the question is there, evidence
and advice are never dropped, and one of a thing is not several."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
ROOT = pathlib.Path(__file__).parents[2]
WIDTH = 80
# Units, and words that only end in s.
NOT_PLURAL = {
    "s",
    "ms",
    "us",
    "ns",
    "is",
    "has",
    "was",
    "this",
    "as",
    "its",
    "less",
    "process",
    "class",
    "pass",
    "across",
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    maker = ROOT / "tests" / "golden" / "make_traces.py"
    subprocess.run([sys.executable, maker, folder], check=True, stdout=subprocess.DEVNULL)
    (folder / "one.json").write_text(json.dumps({"traceEvents": one_of_each()}))
    return sorted(folder.iterdir())


def one_of_each():
    """A step, a label, a Python function, an operator, its launch and kernel, a copy, a wait, a collective, a block."""

    def slice_of(cat, name, ts, dur, tid=1, **args):
        return {"ph": "X", "cat": cat, "name": name, "pid": tid // 7, "tid": tid, "ts": ts, "dur": dur, "args": args}

    memory = {"Bytes": 512, "Addr": 64, "Device Type": 0, "Device Id": -1, "Total Allocated": 512, "Total Reserved": 0}
    return [
        slice_of("user_annotation", "ProfilerStep#0", 0, 1000),
        slice_of("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 2, 90),
        slice_of("python_function", "train.py(3): forward", 95, 300, **{"Python id": 1}),
        slice_of("cpu_op", "aten::mm", 100, 50, **{"External id": 1, "Input Dims": [[8, 8], [8, 8]]}),
        slice_of("cuda_runtime", "cudaLaunchKernel", 110, 10, **{"External id": 1, "correlation": 5}),
        slice_of("kernel", "gemm", 160, 100, tid=7, **{"External id": 1, "correlation": 5, "device": 0, "stream": 7}),
        slice_of("cuda_runtime", "cudaMemcpyAsync", 200, 10, correlation=6),
        slice_of("gpu_memcpy", "Memcpy HtoD", 270, 30, tid=7, correlation=6, device=0, stream=7, bytes=4096),
        slice_of("cuda_runtime", "cudaDeviceSynchronize", 300, 500),
        slice_of("kernel", "ncclDevKernel_AllReduce", 400, 300, tid=14, device=0, stream=14, correlation=8),
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 0, "tid": 1, "ts": 120, "args": memory},
    ]


@pytest.fixture(scope="module")
def answers(traces):
    """(trace, question) → (the table as JSON, as text in 80 columns) of each that has an answer."""
    found = {}
    names = [row[0] for row in json.loads(ask("questions", "--json"))["rows"]]
    for trace in traces:
        for name in names:
            text = ask("ask", trace, name, "--width", WIDTH)
            if text:
                found[trace.name, name] = json.loads(ask("ask", trace, name, "--json", "--limit", 20)), text
    return found


def ask(*words):
    return subprocess.run([TACHOGRAPH, *map(str, words)], capture_output=True, text=True, timeout=600).stdout


def left_out(text):
    lines = [line for line in text.splitlines() if line.startswith("columns left out for lack of width: ")]
    return {name for line in lines for name in line.split(": ", 1)[1].rsplit(" (", 1)[0].split(", ")}


def important(question):
    table = json.loads(ask("questions", question, "--json"))
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return [row["name"] for row in rows if row["important"]]


def test_what_answers_stays(answers):
    """Each column that is listed for its question, but where even the listed ones need more than the width."""
    listed = {question: important(question) for question in {question for _, question in answers}}
    assert sum(map(bool, listed.values())) >= 25
    wrong = {}
    for (trace, question), (table, text) in answers.items():
        gone = left_out(text)
        said = [c["name"] for at, c in enumerate(table["columns"]) if at and any(row[at] for row in table["rows"])]
        kept = [name for name in said if name not in {*gone, *listed[question]}]
        assert not gone & {"evidence", "advice"}, (trace, question)
        if gone & set(listed[question]) and len(kept) > 1:
            wrong[trace, question] = sorted(gone), kept
    assert not wrong


def test_evidence_and_advice_are_whole(answers):
    """All of their words, in their order, however they are broken into lines."""
    seen = 0
    for (_, question), (table, text) in answers.items():
        names = [column["name"] for column in table["columns"]]
        if question != "findings":
            continue
        flat = " ".join(text.split())
        for row in table["rows"]:
            for name in ("evidence", "advice"):
                seen += 1
                assert " ".join(row[names.index(name)].split()) in flat
    assert seen > 10


def test_the_report_has_all_words_of_its_findings(answers, traces):
    seen = 0
    for trace in traces:
        flat = " ".join(ask("report", trace, "--width", WIDTH).split())
        table = answers.get((trace.name, "findings"), [None])[0]
        for row in table["rows"][:3] if table and "findings" in flat else []:
            named = dict(zip((column["name"] for column in table["columns"]), row))
            if f" {named['cause']} " in flat:
                seen += 1
                assert " ".join(named["evidence"].split()) in flat and " ".join(named["advice"].split()) in flat
    assert seen > 5


def test_tables_are_as_wide_as_the_terminal(answers):
    for key, (table, text) in answers.items():
        if any(column["name"] == "text" for column in table["columns"]):
            continue  # as others print it
        for line in text.splitlines():
            assert len(line) <= WIDTH, (key, line)


def test_one_of_a_thing_is_not_several(answers, traces):
    """ "1 steps": in tables, their notes, reports and checks."""
    texts = {key: text for key, (_, text) in answers.items()}
    for trace in traces:
        for command in ("report", "check"):
            texts[trace.name, command] = ask(command, trace)
    found = {}
    for key, text in texts.items():
        for match in re.finditer(r"(?<![\w.,:/#=-])(\w+ )?1 ([a-z]+s)\b", text):
            number_of = (match.group(1) or "").strip()
            if match.group(2) not in NOT_PLURAL and number_of not in ("rank", "step"):
                found.setdefault(match.group(0), key)
    assert not found


def test_no_line_of_a_report_is_wider(tmp_path, traces):
    """Two devices with long names, a world of ranks, and a finding whose line of code is all that fits."""
    path = tmp_path / "wide.json"
    devices = [{"id": i, "name": f"Some Vendor Accelerator-{i} SXM2-32GB"} for i in (0, 1)]
    document = {"traceEvents": one_of_each(), "deviceProperties": devices}
    document["distributedInfo"] = {"backend": "nccl", "rank": 1, "world_size": 16}
    path.write_text(json.dumps(document))
    seen = 0
    for trace in [*traces, path]:
        for line in ask("report", trace, "--width", WIDTH).splitlines():
            command_or_losses = (" " * 10 + "tachograph ", "health ")  # to be copied; one line
            if not line.startswith(command_or_losses):
                assert len(line) <= WIDTH, (trace.name, line)
                assert not line.startswith(" " * 11 + "at "), (trace.name, line)
                seen += 1
    assert seen > 100
