"""Every number with a unit on the Overview page is that of its question, on golden and public traces; nothing with a
unit may be left when all that questions say is taken out of the text."""

import math
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import report_figures as figures
from test_report_figures import PUBLIC, SHARED

FIGURE = re.compile(r"(?<![\w.])[−-]?\d[\d.]* (?:%|[mun]?s\b|[KMGT]?i?B\b)")
SECTIONS = ("verdict", "parts", "findings-short", "devices", "memory-short", "ranks-short", "ops-short",
            "kinds", "asked")  # fmt: skip


def number(value):
    """As number() of web/model/format.js: three digits that matter, thousands in groups."""
    if float(value).is_integer():
        return str(int(value))
    magnitude = abs(value)
    places = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2
    if 0 < magnitude < 0.1:
        places = min(6, 1 - math.floor(math.log10(magnitude)))
    return to_fixed(value, places)


def to_fixed(value, places):
    """As toFixed of JavaScript, which rounds the exact value half up."""
    import decimal

    return str(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-places), decimal.ROUND_HALF_UP))


def scaled(value, units):
    size, unit = next(((s, u) for s, u in units if abs(value) >= s), units[-1])
    return f"{number(value / size if size > 1 else value)} {unit}"


def duration(ns):
    return scaled(ns, ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")))


def size(count):
    return scaled(count, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (1024, "KiB"), (1, "B")))


def percent(value):
    return f"{to_fixed(value, 1)} %"


def of_steps(trace):
    rows = trace.rows("steps", by="summary")
    by = {r["step"]: r for r in reversed(rows)}  # of several ranks the first
    if not by:
        return []
    mean = by["mean"]
    columns = [c for c, _ in figures.PARTS]
    if (mean["compiled_ns"] or 0) > 0 or (mean["replayed_ns"] or 0) > 0:
        columns += ["compiled_ns", "replayed_ns", "eager_ns"]
    parts = [(mean[c], 100 * mean[c] / mean["total_ns"]) for c in columns if mean[c] > 0]
    return [text for ns, pct in parts for text in (duration(ns), percent(pct))] + [
        duration(mean["total_ns"]),
        f"Median {duration(by['p50']['total_ns'])}",
        f"90 % within {duration(by['p90']['total_ns'])}",
    ]


def saving(r):
    low, high = r["saving_low_ns"], r["saving_high_ns"]
    if low is None:
        return f"saves {duration(r['saving_ns'])}"
    if low > 0:
        return f"saves {duration(low)} to {duration(high)}"
    return f"saves up to {duration(high)}" + (f", or costs up to {duration(-low)}" if low < 0 else "")


def of_findings(trace):
    rows = trace.rows("findings")
    first = rows[0] if rows else None
    # the verdict stands before the list, which says the same saving again
    out = [f"It {saving(first)} a step"] if first and first["saving_ns"] else []
    for r in rows[:3]:
        out.append(percent(r["share_pct"]) if r["cost_ns"] is None else
                   f"costs {duration(r['cost_ns'])}, {percent(r['share_pct'])}")  # fmt: skip
        out += [saving(r)] if r["saving_ns"] else []
    medians = [r for r in trace.rows("steps", by="summary") if r["step"] == "p50"]
    if medians:
        own = [r for r in medians if first and r["rank"] == first["rank"]] or medians
        out.append(f"takes {duration(own[0]['total_ns'])} in the median")
    if first:
        out += [first["evidence"], first["advice"]]
    else:
        out += (trace.answer("findings") or {"notes": []})["notes"]
    return out


def of_lists(trace):
    out = []
    for r in trace.rows("breakdown", by="device", window="steps"):
        out += [f"{percent(r[c + '_pct'])} {word}" for c, word in
                (("busy", "busy"), ("compute", "computing"), ("idle", "idle"))]  # fmt: skip
    out += (trace.answer("breakdown", by="device", window="steps") or {"notes": []})["notes"]
    for r in trace.rows("memory"):
        at = r["peak_allocated_bytes"] if r["peak_allocated_bytes"] is not None else r["peak_net_bytes"]
        out.append(f"peak {size(at)}")
    answer = trace.answer("ranks") or {"notes": []}
    is_doubtful = any("waits are not to be trusted" in note for note in answer["notes"])
    ranks = trace.rows("ranks")
    for r in ranks[:8] if len(ranks) > 1 else []:
        out += [f"step {duration(r['step_ns'])}"] + [f"waits {duration(r['wait_ns'])}"] * (not is_doubtful)
        out += [f"costs others {percent(r['straggler_pct'])}"] if r["straggler_pct"] and not is_doubtful else []
    ops = trace.rows("ops", limit=8)
    at = "device" if any(r["self_device_ns"] > 0 for r in ops) else "cpu"
    for r in ops:
        out += [duration(r[f"self_{at}_ns"]), percent(r[f"self_{at}_pct"])]
    return out


def of_first_rank(trace, question):
    rows = trace.rows(question)
    return [r for r in rows if r["rank"] == rows[0]["rank"]]


def of_kinds(trace):
    out = []
    for i, r in enumerate(of_first_rank(trace, "bottleneck")):
        out += [duration(r["step_ns"]), percent(r["share_pct"])] if not i or r["share_pct"] > 0 else []
    asked = of_first_rank(trace, "six_questions")
    return out + [percent(r["value"]) for r in asked if r["value"] is not None and r["unit"] == "%"]


def in_one_line(text):
    return " ".join(text.replace("\u00a0", " ").replace("\u202f", "").split())


def check(p, trace):
    text = ""
    for section in SECTIONS:
        found = p.page.locator(f"#{section}")
        text += f" {found.inner_text()}" if found.count() else ""
    text = in_one_line(text)
    arithmetic = [r["evidence"] for r in trace.rows("bottleneck")[:1]]
    for piece in map(
        in_one_line, arithmetic + of_findings(trace) + of_steps(trace) + of_lists(trace) + of_kinds(trace)
    ):
        spelled = piece if piece in text else piece[:1].upper() + piece[1:]
        if spelled not in text and not FIGURE.search(piece):
            continue  # a note that another part of the page has
        assert spelled in text, (piece, text)
        text = text.replace(spelled, " ", 1)
    assert not FIGURE.findall(text.replace("nothing found above 5 %", "").replace("Nothing found above 5 %", "")), text
    assert p.errors == []


@pytest.mark.parametrize("name", ["cpu_training", "gpu_training", "amd_training", "memory_training", "python_stacks"])
def test_golden(traces, view, open_page, tachograph_path, name):
    path = traces / f"{name}.json"
    check(open_page(view(path).url).go("#/overview"), figures.Trace(tachograph_path, path))


@pytest.mark.parametrize("name", PUBLIC or [pytest.param("", marks=pytest.mark.skip("no public traces here"))])
def test_public(view, open_page, tachograph_path, name):
    path = SHARED / name
    check(open_page(view(path).url).go("#/overview"), figures.Trace(tachograph_path, path))
