"""The code blocks of the documents hold: programs in Python run with what they take for granted, and command lines name
commands and options that exist. test_documents.py, test_adding.py and tests/tutorials run the blocks of other pages."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_TESTS = {"docs/api.md", "docs/cli.md", "docs/adding.md"}

# What a program of a page takes for granted.
PRELUDE = """
import torch, types
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
loader = [torch.ones(4, 8) for _ in range(8)]
def train_step(batch=loader[0]):
    loss = model(batch).sum()
    loss.backward()
    return loss
def normalize(batch):
    return batch
app = types.SimpleNamespace(add_middleware=lambda middleware: None, wsgi_app=lambda environ, start: [])
"""
PROFILED = """
import tachograph
with tachograph.profile() as prof:
    train_step()
"""
# (text of the block → what stands in its place here), reason
IN_PLACE = {
    '"s3://bucket/run", on="ray://head:10001"': (
        '"ranks", on="local"',
        "a cluster and a bucket: tests/field has a cluster",
    ),
    'trace_dir="traces"': ('trace_dir="ranks"', "the folder of the test"),
    "server = grpc.server(pool, interceptors=[serving.grpc_interceptor()])": ("", "gRPC: tests/field has a server"),
}
# First line that only this block has → why it is compiled and not run.
ONLY_COMPILED = {
    "Trainer(args=args": "the packages of four trainers: tests/field",
    "@pytest.mark.tachograph(": "a test, which pytest runs: test_budget.py",
}


def blocks(language):
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if name in OWN_TESTS or "tutorials" in name:
            continue
        text = page.read_text(encoding="utf-8")
        for m in re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.S | re.M):
            line = text.count("\n", 0, m.start()) + 1
            yield pytest.param(m.group(1), id=f"{name}:{line}")


@pytest.fixture
def folder(tmp_path):
    """trace.json.gz with one operator, and ranks/ with two ranks of three steps."""
    import gzip

    def event(cat, name, ts, dur):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}

    events = [event("user_annotation", f"ProfilerStep#{i}", 100 * i, 100) for i in (1, 2, 3)]
    events += [event("cpu_op", "aten::add", 110, 10)]
    kernel = {**event("kernel", "gemm", 120, 10), "args": {"device": 0, "stream": 7}}
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    (tmp_path / "ranks").mkdir()
    for rank in range(2):
        document = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": [*events, kernel]}
        (tmp_path / "ranks" / f"rank{rank}.json").write_text(json.dumps(document))
    return tmp_path


@pytest.mark.parametrize("program", list(blocks("python")))
def test_python(program, folder, forks):
    pytest.importorskip("torch")
    code = compile(program, "block", "exec")
    if any(line in program for line in ONLY_COMPILED):
        assert code.co_code
        return
    for text, (instead, _) in IN_PLACE.items():
        program = program.replace(text, instead)
    prelude = PRELUDE + (PROFILED if "prof." in program and "as prof" not in program else "")
    done = forks.run(prelude + program, cwd=folder)
    assert done.returncode == 0, done.stderr


def command_lines():
    """(page, words) of each line of a block without a language that calls tachograph."""
    for page in PAGES:
        for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M):
            for line in block.splitlines():
                m = re.match(r"(?:\$ )?(?:[\w./]*/)?tachograph (\w[\w-]*.*)", line)
                if m:
                    yield page.relative_to(ROOT).as_posix(), re.sub(r"\s+#.*", "", m.group(1))


def test_every_command_line_has_a_command_and_options_that_exist(tachograph):
    listed = tachograph("help").stdout
    commands = re.findall(r"^  ([a-z]+) {2,}", listed, flags=re.M)
    helps, unknown, count = {}, [], 0
    for page, line in command_lines():
        words = line.split(" -- ")[0].split()
        if words[0] not in commands:  # `tachograph FILE`, or a line of output
            continue
        count += 1
        helps.setdefault(words[0], tachograph(words[0], "--help").stdout)
        ours = words[1:] if words[0] != "run" else words[1 : 1 + own_words(words[1:])]
        for option in (word.split("=")[0] for word in ours if re.match(r"--[a-z]", word)):
            if not re.search(rf"(^|[ ,]){option}\b", helps[words[0]], flags=re.M):
                unknown.append((page, line, option))
    assert count > 30
    assert unknown == []


def own_words(words):
    """How many of the words behind `tachograph run` are its own: those before the program."""
    for i, word in enumerate(words):
        if word.endswith(".py") or word == "-m":
            return i
    return len(words)
