#!/usr/bin/env python3
"""Every call of the façade, and the question behind it, beside HolisticTraceAnalysis 0.5.0: CPU seconds and memory, one
trace, one run.

    hta_answers.py [--sizes 50,500] [--hta-python PYTHON] [--work DIR] [--patience 300] [--out FILE.json] [TRACE ...]
    hta_answers.py --theirs FILE.json ...    take HTA's side from a file that --out wrote: only ours is measured again

Each package works through the notebook in a process of its own, on one core, and says after each call what it took; the
questions are asked of the engine in a third process, without pandas. A call on which HTA fails, or that it has not
ended within
--patience seconds of CPU, is listed as such and the notebook goes on. HTA is looked for where tests/python/peers.py
makes it.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
import grow
import peers

MUST, AIM, NOTEBOOK, MEMORY = 40, 100, 40, 10
SIDES = ("hta", "tachograph.hta", "engine")
WHOLE = "(whole)"


# ---- side by side ------------------------------------------------------------------------------------------


def worked(python, side, path, patience, threads=1):
    """{what: {cpu, peak, failed}} in order, and under WHOLE the process' own CPU time and peak."""
    core = {min(os.sched_getaffinity(0))}
    command = [str(python), str(HERE / "hta_notebook.py"), side, str(path), str(patience)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, core)
    )
    answers = {}
    for line in child.stdout:
        answer = json.loads(line)
        answers[answer.pop("what")] = answer
    _, status, used = os.wait4(child.pid, 0)
    answers[WHOLE] = {
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        "failed": "ended with status %d" % status if status else "",
    }
    return answers


def verdict(ratio):
    return "yes" if ratio >= AIM else "must" if ratio >= MUST else "NO"


def rows_of(size, theirs, ours, engine):
    """A row a call: HTA's seconds, the question's, the façade's, each by itself; and from the file, with the loading it
    needs."""
    rows = []
    for what, mine in ours.items():
        if what == WHOLE:
            continue
        other = theirs.get(what, {"failed": "not run: " + theirs[WHOLE]["failed"]})
        row = {"what": "%s: %s" % (size, what), "facade_s": mine["cpu"], "failed": mine["failed"]}
        if what in engine:
            row["engine_s"] = engine[what]["cpu"]
            row["failed"] = row["failed"] or engine[what]["failed"]
        if other["failed"]:
            row["hta"] = other["failed"]
        else:
            row["hta_s"] = other["cpu"]
            loads = [0.0, 0.0] if what == "load" else [theirs["load"]["cpu"], ours["load"]["cpu"]]
            row["from_file"] = (loads[0] + other["cpu"]) / (loads[1] + mine["cpu"])
        rows.append(row)
    return rows


def summary_of(size, theirs, ours, engine):
    """The whole notebook: what both answer, and the peaks of the two processes."""
    both = [w for w in ours if w != WHOLE and w in theirs and not theirs[w]["failed"]]
    total = [sum(side[w]["cpu"] for w in both) for side in (theirs, ours)]
    peak = [side[WHOLE]["peak"] for side in (theirs, ours, engine)]
    return {
        "what": "%s: the notebook" % size,
        "hta_s": total[0],
        "facade_s": total[1],
        "hta_mb": peak[0] / 1e6,
        "facade_mb": peak[1] / 1e6,
        "engine_mb": peak[2] / 1e6,
        "bare_mb": ours["imports"]["peak"] / 1e6,
        "calls": len(both),
    }


def column(seconds, against=None):
    if seconds is None:
        return "%22s" % ""
    ratio = against / max(seconds, 1e-6) if against is not None else None
    return "%11.5f s" % seconds + (" %5.0f x %-4s" % (ratio, verdict(ratio)) if ratio is not None else " " * 13)


def say(row):
    if "hta_mb" in row:
        ratio, less = row["hta_s"] / row["facade_s"], row["hta_mb"] / row["facade_mb"]
        print(
            "%-36s %9.2f s, ours %.3f s: %.0f x (%s; %d calls both answer)"
            % (row["what"], row["hta_s"], row["facade_s"], ratio, "ok" if ratio >= NOTEBOOK else "NO", row["calls"])
        )
        print(
            "%-36s %9.0f MB, ours %.0f MB: %.1f x less (%s); without the %.0f MB of Python with pandas %.1f x; the questions alone %.0f MB: %.1f x"
            % (
                "  peak memory",
                row["hta_mb"],
                row["facade_mb"],
                less,
                "ok" if less >= MEMORY else "NO",
                row["bare_mb"],
                (row["hta_mb"] - row["bare_mb"]) / max(row["facade_mb"] - row["bare_mb"], 1),
                row["engine_mb"],
                row["hta_mb"] / row["engine_mb"],
            )
        )
        return
    theirs = row.get("hta_s")
    line = "%-36s %11s %s %s" % (
        row["what"],
        "-" if theirs is None else "%9.3f s" % theirs,
        column(row.get("engine_s"), theirs),
        column(row["facade_s"], theirs),
    )
    print(
        line
        + (" %5.0f x" % row["from_file"] if theirs is not None else "  HTA fails: %s" % row["hta"])
        + (" OURS FAILED: %s" % row["failed"] if row["failed"] else "")
    )


def shown(made):
    print(
        "%-36s %11s %24s %24s %7s"
        % ("CPU seconds of a call by itself", "HTA", "the question", "the façade", "from file")
    )
    for row in made:
        say(row)
    sys.stdout.flush()


def grown(work, megabytes):
    work.mkdir(parents=True, exist_ok=True)
    path = work / ("grown-%d.json" % megabytes)
    if not path.exists():
        part = path.with_suffix(".part.json")
        grow.write(part, megabytes * 1_000_000)
        part.rename(path)
    return str(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", help="traces to work on instead of grown ones")
    parser.add_argument("--sizes", default="50,500", help="MB of grown traces")
    parser.add_argument("--hta-python", default=peers.find(), help="a Python that has HTA 0.5.0")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "tachograph-bench")
    parser.add_argument("--patience", type=float, default=300, help="CPU seconds for one call")
    parser.add_argument("--theirs", type=pathlib.Path, help="what --out wrote: HTA is not run again")
    parser.add_argument("--out", type=pathlib.Path, help="write what was measured as JSON")
    args = parser.parse_args()
    if not args.hta_python and not args.theirs:
        print("not measured: HTA 0.5.0 is not installed (python tests/python/peers.py make, or --hta-python)")
        return 0
    traces = {pathlib.Path(p).name: p for p in args.traces} or {
        "%s MB" % mb: grown(args.work, int(mb)) for mb in args.sizes.split(",")
    }
    before = json.loads(args.theirs.read_text()) if args.theirs else {}
    kept = {}
    for size, path in traces.items():
        theirs = before[size]["hta"] if size in before else worked(args.hta_python, "hta", path, args.patience)
        ours, engine = (worked(sys.executable, side, path, args.patience) for side in SIDES[1:])
        kept[size] = {"hta": theirs, "facade": ours, "engine": engine}
        shown([*rows_of(size, theirs, ours, engine), summary_of(size, theirs, ours, engine)])
        if args.out:
            args.out.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
