"""Every question to every golden trace, and the report, compared exactly with checked-in text. `make accept` rewrites;
git shows the change, and whoever commits it answers for it."""

import difflib
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools")]
import defs
import make_traces

EXPECTED = HERE / "expected"
# golden file → the commands whose output it holds; {} is the trace
COMMANDS = {"report": [["report", "{}"]], "check": [["check", "{}"]], "diff": [["diff", "{}", "{}"]]}
VARIANTS = {  # of questions that are asked otherwise than with their name alone
    "steps": [[], ["--by", "summary"]],
    "ops": [[], ["--by", "shape"], ["--by", "module"], ["--by", "stack"], ["--by", "step"]],
    "key_averages": [[], ["--by", "shape+overload+stack:2", "--python", "1"], ["--by", "event"]],
    "kernels": [[], ["--by", "op"], ["--by", "config"], ["--by", "stream"]],
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
    "data_hidden": [[], ["--workers", "1,3"]],
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


def answer(tachograph, trace, commands):
    """What the commands print as text and as JSON, with their exit status; the trace goes by its bare name."""
    parts = []
    for arguments in commands:
        for extra in ([], ["--json"]):
            words = [trace.name if word == "{}" else word for word in arguments] + extra
            done = tachograph(*words, cwd=trace.parent)
            parts.append(f"$ tachograph {' '.join(words)}\n{done.stdout}{done.stderr}(status {done.returncode})\n")
    return "\n".join(parts)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_accepted_ones(tachograph, traces, name, command, accept):
    path = EXPECTED / name / f"{command}.txt"
    got = answer(tachograph, traces[name], COMMANDS[command])
    if accept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(got, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} is missing for {name}: run make accept and look at it"
    want = path.read_text(encoding="utf-8")
    if got != want:
        pytest.fail(
            "".join(difflib.unified_diff(want.splitlines(True), got.splitlines(True), "accepted", "now", n=2)),
            pytrace=False,
        )


def test_every_variant_is_of_a_question():
    assert set(VARIANTS) <= set(QUESTIONS)


def test_no_golden_is_left_over():
    kept = {f"{name}/{command}.txt" for name in NAMES for command in COMMANDS}
    assert {p.relative_to(EXPECTED).as_posix() for p in EXPECTED.rglob("*.txt")} == kept
