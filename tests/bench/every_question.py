#!/usr/bin/env python3
"""What it costs to ask one trace every question, once each, with its default arguments: CPU time on one core after the
trace is open.

    every_question.py [--lib DIR] [--trace FILE | --size MB] [--work DIR] [--rounds N] [--out FILE.json]

The trace is made by grow.py in --work (outside the tree, kept for the next run). Each round is a process of its own
that opens the trace and asks in the order of `tachograph questions`, so that the first question that needs the operator
forest, say, pays for it. Medians."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path[:0] = [str(HERE), str(REPO / "tests" / "conformance")]
import grow
from engine import find_binary
from measure import machine, output

ALL_MUST_S, PATH_MUST_US, SEQUENCES_MUST_S = 2, 1, 2
NO_DATA = 3


def library(args):
    """The folder of the library that belongs to the program."""
    binary = find_binary()
    here = [pathlib.Path(binary).resolve().parent] if binary else []
    places = [pathlib.Path(p) for p in (args.lib, os.path.dirname(os.environ.get("TACHOGRAPH_LIBRARY", ""))) if p]
    places += [p for h in here for p in (h, h.parent / "lib")] + [REPO / "build"]
    found = next((p for p in places if (p / "libtachograph.so").exists()), None)
    return found or sys.exit("every_question.py: no libtachograph.so found; build first (make all), or give --lib")


def compiled(folder, work):
    out = work / "every_question"
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-std=gnu11",
            "-O2",
            str(HERE / "every_question.c"),
            "-o",
            str(out),
            "-I" + str(REPO / "include"),
            "-L" + str(folder),
            "-ltachograph",
            "-Wl,-rpath," + str(folder),
        ],
        check=True,
    )
    return str(out)


def grown(work, size):
    path = work / ("grown-%d.json" % size)
    if not path.exists():
        print("making %s" % path, flush=True)
        part = path.with_suffix(".part.json")
        grow.write(part, int(size * 1e6))
        part.rename(path)
    return path


def medians(runs):
    """[(question, CPU seconds, rows, exit status)] in the order asked."""
    first = runs[0]["questions"]
    return [
        (q["name"], statistics.median(r["questions"][i]["cpu_ms"] for r in runs) / 1e3, q["rows"], q["status"])
        for i, q in enumerate(first)
    ]


def check(what, value, unit, must):
    print("%-52s %8.3f %-12s must <= %g  %s" % (what, value, unit, must, "ok" if value <= must else "MISSED"))
    return {"what": what, "value": value, "unit": unit, "must": must, "must_reached": value <= must}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", help="folder of libtachograph.so")
    parser.add_argument("--trace", help="a ready trace")
    parser.add_argument("--size", type=int, default=500, help="MB of the trace to make")
    parser.add_argument("--work", help="where the trace is kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="write the figures as JSON")
    args = parser.parse_args()
    work = pathlib.Path(args.work or pathlib.Path(tempfile.gettempdir()) / "tachograph-bench")
    work.mkdir(parents=True, exist_ok=True)
    path = pathlib.Path(args.trace) if args.trace else grown(work, args.size)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="every-question-"))
    try:
        program = compiled(library(args), scratch)
        core = {min(os.sched_getaffinity(0))}
        runs = [json.loads(output([program, str(path)], core)) for _ in range(args.rounds)]
    finally:
        shutil.rmtree(scratch)
    about = machine()
    questions = medians(runs)
    events = next(rows for name, _, rows, _ in questions if name == "events")
    print("%(cpu)s, Linux %(kernel)s, load %(load_before).2f" % about, flush=True)
    print(
        "%s, %.0f MB, %d events with a duration, %d rounds\n"
        % (path.name, path.stat().st_size / 1e6, events, args.rounds)
    )
    for name, seconds, rows, status in sorted(questions, key=lambda q: -q[1]):
        print(
            "%-22s %9.4f s   %s"
            % (
                name,
                seconds,
                "%d rows" % rows if not status else "no data" if status == NO_DATA else "status %d" % status,
            )
        )
    cost = {name: seconds for name, seconds, _, _ in questions}
    whole = statistics.median(sum(q["cpu_ms"] for q in r["questions"]) for r in runs) / 1e3
    opened, asked = (statistics.median(r[k] for r in runs) / 1e3 for k in ("opened_kb", "asked_kb"))
    print(
        "\nanonymous memory: %.0f MB after opening, %.0f MB with what is kept between questions (%.2f bytes a byte of the file)\n"
        % (opened, asked, (asked - opened) * 1e6 / path.stat().st_size)
    )
    bounds = [
        check("all %d questions, one core" % len(questions), whole, "s", ALL_MUST_S),
        check("critical path", cost["critical_path"] * 1e6 / events, "us an event", PATH_MUST_US),
        check("frequent kernel sequences", cost["sequences"], "s", SEQUENCES_MUST_S),
    ]
    if args.out:
        pathlib.Path(args.out).write_text(
            json.dumps(
                {"machine": about, "trace": str(path), "questions": questions, "bounds": bounds, "runs": runs}, indent=1
            )
            + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
