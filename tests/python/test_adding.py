"""docs/adding.md holds: a question stands in one .def line and one .c file, and the page's steps, applied to a copy of
the tree, give a program that answers, finds, writes and obeys what they add."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import defs

PAGE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
SRC = ROOT / "src"
NAMES = [q.name for q in defs.questions()]

# Strings equal to a question's name that mean something else: (name, file; its name is unique) → what they are.
HOMONYMS = {
    ("idle", "bottleneck.c"): "a kind of bottleneck",
    ("memory", "bottleneck.c"): "a kind of bottleneck",
    ("memory", "six_questions.c"): "what a question is about",
    ("memory", "work_bounds.c"): "what bounds an operator",
    ("steps", "six_questions.c"): "what a share is of",
    ("steps", "report.c"): "a member of the report's JSON",
    ("rows", "compiles.c"): "a member of the document",
    ("kernels", "kernel_lines.c"): "a member of the document",
    ("stacks", "kernel_lines.c"): "a member of the document",
    ("modules", "kernel_lines.c"): "a member of the document",
    ("memory", "diff_collect.c"): "a kind of row",
    ("memory", "diff_fail.c"): "a kind of row",
    ("memory", "diff_page.c"): "a kind of row",
    ("memory", "fold.c"): "what bounds a kernel",
    ("memory", "roofline.c"): "what bounds a kernel",
    ("memory", "device_peaks.c"): "what is at its peak",
    ("steps", "questions_device.def"): "a value of window=",
    ("memory", "memory_hook.c"): "a source",
    ("memory", "cmd_doctor.c"): "a line about the machine",
    ("memory", "cmd_run.c"): "an option",
    ("steps", "cmd_run.c"): "an option",
    ("steps", "cause_memory.c"): "a column",
    ("steps", "breakdown.c"): "a value of window=",
    ("kernels", "diff_fail.c"): "a quantity",
    ("kernels", "diff_rows.c"): "a quantity",
    ("kernels", "diff_page.c"): "a word",
    ("kernels", "report_text.c"): "a word",
    ("collectives", "op_classes.def"): "a class of operators",
    ("events", "report_extent.c"): "a quantity",
    ("events", "python_monitor.c"): "an attribute of sys.monitoring",
    ("modules", "python_modules.c"): "a source",
    ("modules", "python_kept.c"): "a key of what is kept",
    ("queue", "chrome_counters.c"): "a value of counters=",
    ("overlap", "what_if.c"): "an argument",
    ("what_if", "cmd_ask.c"): "the question of --to",
    ("idle", "slice_classes.def"): "a class of slices",
    ("tracks", "message.c"): "a call of the page",
    ("memory", "message.c"): "a kind of error",
    ("memory", "http.c"): "a kind of error",
    ("overview", "report.c"): "a member of the report's JSON",
    ("losses", "report.c"): "a member of the report's JSON",
    ("launches", "report.c"): "a member of the report's JSON",
    ("findings", "report.c"): "a member of the report's JSON",
    ("bottleneck", "report.c"): "a member of the report's JSON",
    ("six_questions", "report.c"): "a member of the report's JSON",
    ("findings", "report_text.c"): "a heading",
    ("phases", "report.c"): "a member of the report's JSON",
    ("phases", "report_kind.c"): "a heading",
    ("forward_backward", "keys.def"): "a key of a trace",
    ("segments", "snapshot_words.def"): "a key of a snapshot",
    ("bottleneck", "diagnosis.c"): "what an item is",
    ("memory", "diagnosis_parts.c"): "a kind of bottleneck",
    ("diagnosis", "cmd_diagnose.c"): "the question of the command",
    ("findings", "cmd_diagnose.c"): "the question of --explain",
}
# Calls that take a key of JSON or the name of an argument or option: such a string is no question's name.
KEYS = r'\b(?:tg__json_key|put_int|tg__cli_\w+|tg__message_\w+|tg__ask_(?:integer|choice)|put_count)\([^;"]*(?:"\w*", )?|^OPTION\(\w+, '
# Where questions may be named by their id: pages that are made of them.
BY_ID = re.compile(
    r"src/(show|serve)/.*|src/api/.*|src/analyze/diff/diff_collect\.c|"
    r"src/diagnose/(causes\.def|(cause_memory|bottleneck|six_questions|work_bounds|diagnosis|diagnosis_parts)\.c)"
)


def sources():
    """(path below the root, text without comments) of every C file and list."""
    for path in sorted(SRC.rglob("*")):
        if path.suffix in (".c", ".h", ".def"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
            yield path.relative_to(ROOT).as_posix(), text


@pytest.fixture(scope="module")
def places():
    """Question → where its name stands: its lines, its function, strings, ids."""
    found = {name: {"def": [], "c": [], "string": [], "id": []} for name in NAMES}
    for path, text in sources():
        for name in re.findall(r"^QUESTION\((\w+),", text, flags=re.M):
            found[name]["def"].append(path)
        for name in re.findall(r"^enum tg_err tg__answer_(\w+)\([^;{]*\{", text, flags=re.M):
            found[name]["c"].append(path)
        for name in re.findall(r"(?<!#define )\bTG__Q_(\w+)", text) + re.findall(
            r"^NEXT\(\w+, (\w+),", text, flags=re.M
        ):
            if name in found:  # else a count, or the macro's own parameter
                found[name]["id"].append(path)
        text = re.sub(rf'({KEYS})"\w+"', r"\1KEY", text, flags=re.M)
        for literal in re.findall(r'"((?:\\.|[^"\\\n])*)"', text):
            name = re.match(r"(\w+)(?: -.*)?$", literal)
            if name and name[1] in found:
                found[name[1]]["string"].append(path)
    return found


def test_a_question_is_one_line_of_a_list_and_one_function(places):
    assert {name: (len(p["def"]), len(p["c"])) for name, p in places.items()} == dict.fromkeys(NAMES, (1, 1))
    for name, p in places.items():
        assert re.fullmatch(r"src/(analyze/(compat/)?\w+|diagnose|replay)/questions_\w+\.def", p["def"][0]), name


def test_no_string_elsewhere_is_the_name_of_a_question(places):
    strings = {(name, pathlib.PurePath(path).name) for name, p in places.items() for path in p["string"]}
    assert strings - set(HOMONYMS) == set()
    assert set(HOMONYMS) - strings == set()  # none is listed in vain


def test_ids_stand_in_pages_only(places):
    assert [(n, path) for n, p in places.items() for path in p["id"] if not BY_ID.fullmatch(path)] == []


def test_the_folder_of_tables_names_no_question():
    for path, text in sources():
        if path.startswith("src/analyze/table/"):
            words = set(re.findall(r"\w+", text))
            assert (
                not {
                    f"{prefix}{n}" for prefix in ("TG__Q_", "tg__answer_", "tg__folded_", "tg__merged_") for n in NAMES
                }
                & words
            )


# ---- the page's steps --------------------------------------------------------------------------

STEP = re.compile(r"^\*\*\d\.\*\* `([^`]+)`, (a new file|at the end|above `([^`]+)`):\n\n```c\n(.*?)^```$", re.S | re.M)


def test_every_step_of_the_page_can_be_applied():
    steps = STEP.findall(PAGE)
    assert len(steps) == PAGE.count("\n**1.**") + PAGE.count("\n**2.**") == 8
    for path, how, line, _ in steps:
        assert (ROOT / path).exists() == (how != "a new file"), path
        assert not line or line in (ROOT / path).read_text(encoding="utf-8").splitlines(), (path, line)


def apply_steps(tree):
    for path, how, line, block in STEP.findall(PAGE):
        target = tree / path
        if how == "a new file":
            target.write_text(block, encoding="utf-8")
        elif how == "at the end":
            target.write_text(target.read_text(encoding="utf-8") + "\n" + block, encoding="utf-8")
        else:
            target.write_text(
                target.read_text(encoding="utf-8").replace(f"\n{line}\n", f"\n{block}\n{line}\n", 1), encoding="utf-8"
            )


def slice_event(category, name, ts, dur):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}


@pytest.mark.long
def test_following_the_page_adds_what_it_says(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for part in (
        "CMakeLists.txt",
        "cmake",
        "CONTRIBUTING.md",
        "README.md",
        "src",
        "include",
        "tools",
        "docs",
        "python",
    ):
        source = ROOT / part
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(source, tree / part, ignore=ignored) if source.is_dir() else shutil.copy(source, tree / part)
    apply_steps(tree)

    def run(*words, status=0, cwd=tree):
        done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=1800)
        assert done.returncode == status, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    run(
        "cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O0 -g0", "-DTG_BUILD_TESTS=OFF"
    )
    run("cmake", "--build", "build", "--target", "tachograph-cli", "-j", os.cpu_count() or 2)
    run(sys.executable, "tools/layers.py")
    run(sys.executable, "tools/docs.py", "--write")
    run(sys.executable, "tools/stubs.py", "--write")

    events = []
    for step in range(3):
        events.append(slice_event("user_annotation", f"ProfilerStep#{step}", 1000 * step, 1000))
        events.append(slice_event("cpu_op", "aten::mm", 1000 * step + 100, 100 + 10 * step))
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    tool = tree / "build" / "tachograph"

    answer = json.loads(run(tool, "ask", trace, "longest", "--where", "name ~ 'Step'", "--json"))
    assert [c["name"] for c in answer["columns"]] == ["rank", "track", "slice", "name", "start_ns", "dur_ns"]
    assert [row[3:] for row in answer["rows"]] == [["ProfilerStep#0", 0, 1_000_000]]
    assert "longest" in run(tool, "questions")
    pages = sorted((tree / "docs" / "metrics").glob("*.md"))
    assert sum("### `longest`" in page.read_text(encoding="utf-8") for page in pages) == 1

    rows = run(tool, "export", trace, "--to", "lines", "-o", "-").splitlines()
    assert sorted(rows) == sorted(e["name"] for e in events)

    table = json.loads(run(tool, "busiest", trace, "--json"))
    assert [row[-1] for row in table["rows"]] == [3_000_000]
    assert "tachograph busiest" in run(tool, "help", "busiest")

    causes = [f["cause"] for f in json.loads(run(tool, "report", trace, "--json"))["findings"]]
    assert "one-operator" not in causes  # 120 of 3000 us
    slow = [slice_event("user_annotation", "ProfilerStep#0", 0, 1000), slice_event("cpu_op", "aten::mm", 100, 800)]
    trace.write_text(json.dumps({"traceEvents": slow}))
    report = json.loads(run(tool, "report", trace, "--json"))
    assert [f["cause"] for f in report["findings"]] == ["one-operator"]
    assert "0.80 ms, 80.0 %" in report["findings"][0]["evidence"]
    assert report["next"] == f"tachograph ask {trace} longest"
