"""Every question to every golden trace, and the report, compared exactly with checked-in text. `make accept` rewrites;
git shows the change, and whoever commits it answers for it."""

import difflib
import pathlib
import re
import shlex
import sys

import pytest
import tachograph as tg

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools")]
import defs
import make_traces

EXPECTED = HERE / "expected"
ROWS_AS_TEXT = 20  # the command line prints no more where no limit is given
# golden file → the commands whose output it holds; {} is the trace
COMMANDS = {"report": [["report", "{}"]], "check": [["check", "{}"]], "diff": [["diff", "{}", "{}"]]}
VARIANTS = {  # of questions that are asked with more than their name
    "steps": [[], ["--by", "summary"]],
    "ops": [[], ["--by", "shape"], ["--by", "module"], ["--by", "stack"], ["--by", "step"]],
    "key_averages": [[], ["--by", "shape+overload+stack:2", "--python", "1"], ["--by", "event"]],
    "kernels": [[], ["--by", "op"], ["--by", "config"], ["--by", "stream"], ["--by", "line"], ["--by", "module"]],
    "launches": [[], ["--by", "call"], ["--by", "event"]],
    "gaps": [[], ["--by", "cause"]],
    "breakdown": [[], ["--by", "device"], ["--rules", "hta"]],
    "overlap": [[], ["--by", "step"], ["--rules", "hta"]],
    "kernel_types": [[], ["--by", "all", "--memory", "0"], ["--rules", "hta"]],
    "kernel_breakdown": [[], ["--kernels", "1"], ["--kernels", "1", "--rules", "hta"]],
    "idle": [[], ["--by", "cause", "--delay-us", "10"], ["--by", "interval"], ["--rules", "hta"]],
    "queue": [[], ["--by", "series"], ["--by", "full", "--max-length", "1"], ["--rules", "hta"]],
    "copy_bandwidth": [[], ["--by", "series"], ["--by", "op"], ["--rules", "hta"]],
    "launch_stats": [[], ["--by", "kernel", "--call-us", "4"], ["--by", "call"], ["--by", "event"], ["--rules", "hta"]],
    "memory_state": [[], ["--at", "end"]],
    "memory_map": [[], ["--by", "level", "--parts", "5"]],
    "roofline": [[], ["--by", "kind"]],
    "memory": [[], ["--by", "time"], ["--by", "peak"], ["--by", "op"], ["--by", "category"]],
    "memory_blocks": [
        [],
        ["--by", "category"],
        ["--by", "op"],
        ["--by", "layer"],
        ["--by", "line", "--category", "activation"],
    ],
    "memory_timeline": [[], ["--by", "peak"], ["--by", "final"]],
    "fragmentation": [[], ["--by", "time"]],
    "stacks": [[], ["--by", "function"], ["--by", "file"], ["--by", "module"], ["--by", "stack"]],
    "events": [[], ["--by", "mark"]],
    "rows": [
        [],
        ["--by", "rank"],
        ["--by", "step"],
        ["--by", "name", "--side", "device"],
        ["--rules", "hta", "--steps", "without_last"],
    ],
    "op_kernels": [[], ["--by", "op"], ["--by", "call"], ["--rules", "hta"]],
    "sequences": [
        ["--min_length", "1"],
        ["--op", "ProfilerStep", "--min_length", "2"],
        ["--op", "aten::", "--min_length", "1", "--rules", "hta"],
        ["--min_length", "1", "--by", "event", "--top_k", "1"],
    ],
    "kernel_annotations": [["--side", "cpu"], ["--by", "annotation"], ["--by", "annotation", "--rules", "hta"]],
    "call_graph": [[], ["--rules", "hta"]],
    "call_stack": [[], ["--event", "1", "--rules", "hta"]],
    "forward_backward": [[], ["--by", "call"]],
    "loader_overlap": [[], ["--workers", "1,3"]],
    "ranks": [[], ["--by", "step"]],
    "collectives": [
        [],
        ["--by", "group"],
        ["--by", "collective"],
        ["--by", "part"],
        ["--by", "rank"],
        ["--by", "rank", "--rules", "plugin"],
        ["--by", "step", "--rules", "plugin"],
    ],
    "stragglers": [[], ["--rules", "hta"]],
    "spread": [[], ["--by", "op"]],
    "critical_path": [
        ["--by", "edge"],
        [],
        ["--by", "bound"],
        ["--by", "kind"],
        ["--by", "event"],
        ["--by", "rank"],
        ["--by", "edge", "--rules", "hta"],
    ],
    "step_model": [[], ["--by", "step"], ["--by", "resource"]],
    "what_if": [["--remove", 'name ~ "aten::"'], ["--scale", 'category ~ "kernel" 0.5']],
    "slack": [[], ["--by", "line"]],
    "device_metrics": [[], ["--tensor", "plugin"], ["--by", "time"]],
    "totals": [[], ["--by", "track"]],
    "top": [[], ["--side", "cpu"]],
    "modules": [[], ["--by", "class"]],
}
QUESTIONS = {q.name: VARIANTS.get(q.name, [[]]) for q in defs.questions()}
for _question, _variants in QUESTIONS.items():
    COMMANDS[_question] = [["ask", "{}", _question, *arguments] for arguments in _variants]
NAMES = sorted({name.split("/")[0].removesuffix(".json") for name in make_traces.TRACES})


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    return make_traces.write(tmp_path_factory.mktemp("golden"))


def spelled(trace, command):
    """The words of each command of a golden file, as text and as JSON; the trace goes by its bare name."""
    for arguments in COMMANDS[command]:
        for extra in ([], ["--json"]):
            yield [trace.name if word == "{}" else word for word in arguments] + extra


def answer(tachograph, trace, command):
    """What the command line prints for each, with its exit status."""
    parts = []
    for words in spelled(trace, command):
        done = tachograph(*words, cwd=trace.parent)
        parts.append(f"$ tachograph {shlex.join(words)}\n{done.stdout}{done.stderr}(status {done.returncode})\n")
    return "\n".join(parts)


def sections(name, command):
    """(words, output, status) of every command in a golden file."""
    path = EXPECTED / name / f"{command}.txt"
    assert path.exists(), f"{path.name} is missing for {name}: run make accept and look at it"
    found = re.findall(r"^\$ tachograph (.*)\n((?:.*\n)*?)\(status (\d+)\)$", path.read_text(encoding="utf-8"), re.M)
    return [(shlex.split(words), output, int(status)) for words, output, status in found]


def is_refusal(name, command):
    return all(status for _, _, status in sections(name, command))


def compare(want, got, where):
    if got != want:
        lines = difflib.unified_diff(want.splitlines(True), got.splitlines(True), f"accepted {where}", "now", n=2)
        pytest.fail("".join(lines), pytrace=False)


def ask_here(trace, words):
    """What `tachograph ask` prints and its status, asked in this process: of a refusal only the sentence, None for a
    text that the command line cuts short."""
    as_json = words[-1] == "--json"
    options = words[3:-1] if as_json else words[3:]
    arguments = {name[2:].replace("-", "_"): value for name, value in zip(options[::2], options[1::2])}
    try:
        table = trace.ask(words[2], **arguments)
    except tg.TachographError as e:
        return str(e), e.status
    return (table.to_text("json" if as_json else "text") if as_json or len(table) <= ROWS_AS_TEXT else None), 0


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_accepted_ones(tachograph, traces, name, accept, monkeypatch):
    """Every question in every variant, in one process."""
    if accept:
        pytest.skip("the command line writes the golden files")
    monkeypatch.chdir(traces[name].parent)
    with tg.open(traces[name].name) as trace:
        for question in QUESTIONS:
            accepted = sections(name, question)
            assert [words for words, _, _ in accepted] == list(spelled(traces[name], question))
            for words, want, status in accepted:
                got, got_status = ask_here(trace, words)
                if got is None:
                    got = tachograph(*words, cwd=traces[name].parent).stdout
                assert got_status == status, words
                compare(want, want if status and got in want else got, " ".join(words))


def answered_and_refused(command):
    """A trace of which the command has an answer, and one of which it has none, where there are such."""
    found = {is_refusal(name, command): name for name in reversed(NAMES)}
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_gives_the_accepted_answers(tachograph, traces, command, accept):
    """Questions of one trace that has an answer and one that has none, all else of every trace."""
    for name in NAMES if accept or command not in QUESTIONS else answered_and_refused(command):
        path = EXPECTED / name / f"{command}.txt"
        got = answer(tachograph, traces[name], command)
        if accept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(got, encoding="utf-8")
        else:
            compare(path.read_text(encoding="utf-8"), got, f"{name} {command}")


def test_every_variant_is_of_a_question():
    assert set(VARIANTS) <= set(QUESTIONS)


def test_no_golden_is_left_over():
    kept = {f"{name}/{command}.txt" for name in NAMES for command in COMMANDS}
    assert {p.relative_to(EXPECTED).as_posix() for p in EXPECTED.rglob("*.txt")} == kept
