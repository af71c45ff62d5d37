"""Every number with a unit in the report is that of its question: on the golden traces, and on the public ones where
they are. Nothing with a unit may be left when all that questions say is taken out of the text."""

import json
import os
import pathlib
import pickle
import re
import statistics
import sys

import pytest
import report_figures as figures
import snapshots

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import make_traces

SHARED = pathlib.Path(os.environ.get("SHARED") or ROOT.parent / "shared") / "traces"
NO_TRACES = ("memory_timeline", "memtimeline", "expected", "et.json", "README", "INDEX", "malformed")
PUBLIC = sorted(
    str(f.relative_to(SHARED))
    for f in [*SHARED.glob("*/*"), *SHARED.glob("multirank_*")]
    if not any(word in str(f) for word in NO_TRACES)
)
GOLDEN = sorted({name.split("/")[0].removesuffix(".json") for name in make_traces.TRACES})
ANSWERS = {  # part of the report as JSON → question and arguments; rank: of the rank shown
    "overview": ("overview", {}),
    "losses": ("losses", {}),
    "launches": ("launches", {}),
    "step_summary": ("steps", {"by": "summary"}),
    "steps": ("steps", {"rank": True}),
    "top_host_ops": (
        "ops",
        {"rank": True, "sort": "self_cpu_ns desc", "limit": "5", "where": "self_cpu_ns > 0"},
    ),
    "top_device_ops": (
        "ops",
        {"rank": True, "sort": "self_device_ns desc", "limit": "5", "where": "self_device_ns > 0"},
    ),
    "top_kernels": ("kernels", {"rank": True, "sort": "total_ns desc", "limit": "5"}),
    "findings": ("findings", {"rank": True}),
    "bottleneck": ("bottleneck", {"rank": True}),
    "six_questions": ("six_questions", {"rank": True}),
    "labels": (
        "annotations",
        {
            "rank": True,
            "sort": "total_ns desc",
            "limit": "8",
            "where": "side = 'cpu' and name !~ 'ProfilerStep#' and name !~ 'enumerate(Data' and total_ns > 0",
        },
    ),
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return make_traces.write(tmp_path_factory.mktemp("golden"))


def in_one_line(text):
    return " ".join(re.sub(r"[▏▎▍▌▋▊▉█]", "", text).split())


def check_text(trace):
    said = trace.run("report", trace.path)
    if said is None:
        return
    body, _, rest = said.partition("\nnext ")[0].partition("\nmeasured ")
    line, _, unknown = rest.partition("\nunknown ")
    text, notes = in_one_line(body), (trace.answer("findings", **figures.of_rank(trace)) or {"notes": []})["notes"]
    for piece in figures.figures(trace):
        assert piece in text, (piece, text)
        text = text.replace(piece, " ", 1)
    assert not figures.FIGURE.findall(re.sub(r"nothing found above [\d.]+ %", "", text)), text
    assert f"not judged: {in_one_line(unknown)}" in [" ".join(n.split()) for n in notes] or not unknown
    check_measured(trace, in_one_line(line), notes)


def check_measured(trace, line, notes):
    """The shares in the notes are figures of questions, too, each of the same steps."""
    expected = figures.measured(trace, figures.of_rank(trace))
    (note,) = [n for n in notes if n.startswith("measured: ")] or [""]
    assert line in note.replace("measured: ", "")
    for piece in expected:
        if piece.startswith(("device", "median", "at ")) and piece.split(" ")[0] not in note:
            continue  # a device with too little work to say so, one step, more findings than the peak is stated for
        assert piece in note, (piece, note)
        note = note.replace(piece, " ", 1)
    rest = figures.FIGURE.findall(note)
    assert not rest or "was measured" in note, (rest, note)


def check_json(trace):
    said = trace.run("report", trace.path, "--json")
    if said is None:
        return
    report, rank = json.loads(said), figures.of_rank(trace)
    for part, (question, args) in ANSWERS.items():
        args = {k: v for k, v in args.items() if k != "rank"} | (rank if args.get("rank") else {})
        answer = trace.answer(question, **args)
        found = report["report"][part]
        assert (found is None) == (answer is None), part
        assert found is None or (found["columns"], found["rows"]) == (answer["columns"], answer["rows"]), part
    mean = [r for r in trace.rows("steps", by="summary", **rank) if r["step"] == "mean"]
    assert report["step_ms"] == (pytest.approx(mean[0]["total_ns"] / 1e6) if mean else None)
    for short, row in zip(report["findings"], trace.rows("findings", **rank), strict=True):
        saving = None if row["saving_ns"] is None else pytest.approx(row["saving_ns"] / 1e6)
        assert (short["cost_ns"], short["share_pct"], short["saving_ms_per_step"]) == (
            row["cost_ns"],
            pytest.approx(row["share_pct"]),
            saving,
        )


def check_findings(trace):
    """A finding that is about a part of the step costs what usual steps show of it: with or without the first step, as
    the summary has it, and of a fetch by the loop itself no more than the median."""
    parts = {"loader-too-slow": "dataloader_ns", "loader-in-main-process": "dataloader_ns"}
    for row in trace.rows("findings"):
        if row["cause"] not in parts:
            continue
        steps, possible = trace.rows("steps", rank=row["rank"]), []
        for chosen in (steps, steps[1:]):
            waits = [r[parts[row["cause"]]] for r in chosen]
            if waits:
                cost = figures.usual(waits)
                if row["cause"] == "loader-in-main-process":
                    cost = min(cost, statistics.median(waits))
                total = figures.usual([r["total_ns"] for r in chosen])
                possible.append((pytest.approx(cost, abs=len(waits)), pytest.approx(100 * cost / total, abs=1e-3)))
        assert (row["cost_ns"], row["share_pct"]) in possible


def check(trace):
    for part in (check_text, check_json, check_findings):
        part(trace)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(golden, tachograph_path, name):
    check(figures.Trace(tachograph_path, golden[name]))


@pytest.mark.parametrize("name", PUBLIC or [pytest.param("", marks=pytest.mark.skip("no public traces here"))])
def test_public(tachograph_path, name):
    check(figures.Trace(tachograph_path, SHARED / name))


def test_a_snapshot(tmp_path, tachograph_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshots.snapshot([snapshots.Device(k, 3 + k, 3000) for k in (0, 1)])))
    text = " ".join(figures.Trace(tachograph_path, path).run("report", path).partition("\nnext ")[0].split())
    for piece in figures.snapshot(figures.Trace(tachograph_path, path)):
        assert piece in text, piece
        text = text.replace(piece, " ", 1)
    assert not figures.FIGURE.findall(text), text
