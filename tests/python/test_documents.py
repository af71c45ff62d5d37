"""The programs printed in docs/api.md, docs/cli.md and README.md do what they say."""

import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture
def folder(tmp_path):
    """trace.json.gz, and the same before and after and as two ranks: three steps, operators with shapes, more
    than five calls of one. A memory snapshot with one block."""
    import gzip

    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{i}",
            "pid": 1,
            "tid": 1,
            "ts": 100 * i,
            "dur": 100,
        }
        for i in (1, 2, 3)
    ]
    events += [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::add",
            "pid": 1,
            "tid": 1,
            "ts": 100 + 20 * i,
            "dur": 10,
            "args": {"Input Dims": [[8], [8]]},
        }
        for i in range(8)
    ]
    (tmp_path / "ranks").mkdir()
    for name in ("trace", "before", "after"):
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    for rank in range(2):
        document = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (tmp_path / "ranks" / f"rank{rank}.json").write_text(json.dumps(document))
    entry = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1}
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[entry]]}))
    return tmp_path


@pytest.mark.parametrize("document", ["docs/cli.md", "docs/api.md"])
def test_python(folder, forks, document):
    pytest.importorskip("torch")
    for program in blocks(document, "python"):
        done = forks.run(program, cwd=folder)
        assert done.returncode == 0, done.stderr


def build_c(folder, number, library):
    """The number-th program in C of docs/api.md, built against a library of the build folder; returns how to run it."""
    library = pathlib.Path(os.environ.get("TACHOGRAPH_LIBRARY", ROOT / "build" / "libtachograph.so")).parent / library
    if not shutil.which("cc") or not library.exists():
        pytest.skip("no C compiler, or the library is not built")
    (folder / "program.c").write_text(blocks("docs/api.md", "c")[number])
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Werror", "-I", ROOT / "include", "program.c", library, "-o", "program"],
        cwd=folder,
        check=True,
    )
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
    return lambda *args: subprocess.run(
        [folder / "program", *args], cwd=folder, capture_output=True, text=True, env=environment
    )


def test_every_function_that_reads_is_listed_and_tested():
    """The table of "Reading from C" has each function of the two headers, and a test in C calls it."""
    headers = "".join((ROOT / "include/tachograph" / name).read_text() for name in ("read.h", "error.h"))
    code = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    declared = set(re.findall(r"TG_API[^;(]*?\b(tg_\w+)\s*\(", code))
    section = (ROOT / "docs/api.md").read_text(encoding="utf-8").split("## Reading from C")[1].split("\n## ")[0]
    assert set(re.findall(r"`(tg_\w+)`", section)) == declared
    tests = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "tests").glob("[tu]*/*.c")))
    untested = {name for name in declared if not re.search(rf"\b{name}\(", tests)}
    assert untested == {"tg_table_arrow"}  # test_show_arrow.c has what it calls


def test_c_that_reads(folder):
    run = build_c(folder, 0, "libtachograph.so")
    done = run("trace.json.gz")
    assert (done.returncode, done.stdout) == (0, "3 steps\n")
    assert run("none.json").returncode == 1


def test_c_that_records(folder, tachograph):
    run = build_c(folder, 1, "libtachograph-capture.so")
    done = run()
    assert (done.returncode, done.stdout) == (0, "0 lost\n")
    answer = tachograph(
        "sql",
        "run.tacho",
        "SELECT name, count(*) AS n FROM slices WHERE category = 'user_annotation' GROUP BY name ORDER BY name",
        "--json",
        cwd=folder,
    )
    assert json.loads(answer.stdout)["rows"] == [["ProfilerStep#1", 3], ["load", 3]]


def test_commands(folder, tachograph):
    """Every `tachograph …` line of the README and of the examples of docs/cli.md, but for those on files the test does
    not have."""
    printed = [*blocks("README.md", ""), blocks("docs/cli.md", "")[1]]
    lines = [line.split("#")[0].strip() for block in printed for line in block.splitlines()]
    commands = [
        line
        for line in lines
        if line.startswith("tachograph ")
        and "gaps" not in line
        and "demo-out" not in line
        and "train.py" not in line
        and not line.startswith("tachograph attach")  # a process: test_attach.py
        and not line.startswith("tachograph view")  # serves until it is ended: tests/cli/test_view.py
    ]
    assert len(commands) > 12
    for command in commands:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)][1:]
        done = tachograph(*words, cwd=folder)
        assert done.returncode == 0, (command, done.stderr)
