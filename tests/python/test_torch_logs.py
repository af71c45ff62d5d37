"""Logs that three versions of torch wrote for tests/torch_logs/program.py: the question compiles against what tlparse
0.4.3 counts in them (tests/torch_logs/shorten.py made the logs and counts.json)."""

import json
import pathlib

import pytest
import tachograph as tg

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "torch_logs"
COUNTS = json.loads((FOLDER / "counts.json").read_text())


@pytest.fixture(scope="module", params=sorted(COUNTS))
def log(request):
    """(what tlparse counts, rows of compiles)"""
    with tg.open(FOLDER / f"{request.param}.log") as trace:
        return COUNTS[request.param], list(trace.ask("compiles"))


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_each_compilation_is_a_row(log):
    counts, rows = log
    assert ids(row for row in rows if row["kind"] != "backward") == counts["compilation_metrics"]
    assert ids(row for row in rows if row["kind"] == "backward") == counts.get("bwd_compilation_metrics", [])


def test_what_failed_is_left_out_or_at_the_limit(log):
    """tlparse has a function that dynamo gave up without an error as empty; one that is really empty has a rest that
    was compiled."""
    counts, rows = log
    failed = ids(row for row in rows if row["outcome"] != "compiled")
    assert set(counts["failures"]) <= set(failed)
    functions = {row["id"]: row["function"] for row in rows}
    given_up = set(failed) - set(counts["failures"])
    assert given_up == {n for n, s in counts["status"].items() if s == "empty" and functions[n] != "begins"}
    assert {functions[number] for number in failed} - {"lengths"} == {"loops", "refuses"}
    rest = [row for row in rows if row["function"].startswith("begins (behind line ")]
    assert rest and all(row["outcome"] == "compiled" for row in rest)
    assert all(row["total_ns"] > 0 for row in rows)


def test_recompilations_have_their_guard(log):
    counts, rows = log
    assert ids(row for row in rows if row["guard"]) == counts.get("recompile_reasons", [])


def test_breaks_have_their_reason_and_their_line(log):
    """Torch 2.4 names breaks only where dynamo restarted, and no line."""
    counts, rows = log
    breaks = counts.get("dynamo_graph_break_reason")
    with_line = set(ids(row for row in rows if row["broken_at"]))
    if breaks is None:
        assert ids(row for row in rows if row["reason"] and row["outcome"] == "compiled") == counts["restarts"]
        assert with_line <= set(counts["failures"])
    else:
        assert set(breaks) <= with_line and with_line - set(breaks) <= set(counts["failures"])


@pytest.mark.parametrize("what, column", [("hit", "cache_hits"), ("miss", "cache_misses")])
def test_caches(log, what, column):
    counts, rows = log
    expected = sum(len(counts.get(f"{cache}_cache_{what}", [])) for cache in ("fx_graph", "aotautograd"))
    assert sum(row[column] or 0 for row in rows) == expected
