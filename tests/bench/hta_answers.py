#!/usr/bin/env python3
"""Every call of the façade beside HolisticTraceAnalysis 0.5.0, on the same trace in the same run: CPU seconds and memory.

    hta_answers.py [--sizes 50,150] [--hta-python PYTHON] [--work DIR] [--patience 900] [--out FILE.json] [TRACE ...]

Each package works through the notebook in a process of its own, on one core, and says after each call what it took. A call on which
HTA fails, or that it has not ended within --patience seconds, is listed as such. HTA is looked for where tests/python/peers.py makes it.
"""
import argparse
import importlib
import json
import os
import pathlib
import resource
import select
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
import grow  # noqa: E402
import peers  # noqa: E402

MUST, AIM, NOTEBOOK, MEMORY = 40, 100, 40, 10


# ---- the notebook: runs in either package -----------------------------------------------------------------------------------------------

def calls(t, folder):
    """(what, call), in the order of a notebook. Later calls may use what earlier ones left in the object, as in one."""
    yield "temporal breakdown", lambda: t.get_temporal_breakdown(visualize=False)
    yield "kernel breakdown", lambda: t.get_gpu_kernel_breakdown(visualize=False)
    yield "overlap", lambda: t.get_comm_comp_overlap(visualize=False)
    yield "idle time", lambda: t.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)
    yield "queue length series", t.get_queue_length_time_series
    yield "queue length summary", t.get_queue_length_summary
    yield "bandwidth series", t.get_memory_bw_time_series
    yield "bandwidth summary", t.get_memory_bw_summary
    yield "launch statistics", lambda: t.get_cuda_kernel_launch_stats(visualize=False)
    yield "user annotations", lambda: t.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
    yield "profiler steps", t.get_profiler_steps
    yield "kernels with annotations", lambda: t.get_gpu_kernels_with_user_annotations(0)
    yield "trace with counters", lambda: t.generate_trace_with_counters()
    yield "op kernels and delays", t.get_aten_op_kernels_and_delay
    yield "kernel sequences", lambda: t.get_frequent_cuda_kernel_sequences("aten::linear", folder, min_pattern_len=1)
    yield "critical path of a step", lambda: t.critical_path_analysis(0, "ProfilerStep", 0)[0].get_critical_path_breakdown()
    yield "cupti counters", t.get_cupti_counter_data_with_operators


def work(package, path):
    """Says one JSON line a call. pandas is imported before: it costs both the same."""
    import logging
    import warnings
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    real, sys.stdout = sys.stdout, sys.stderr  # HTA prints
    import pandas  # noqa: F401
    import plotly.basedatatypes
    plotly.basedatatypes.BaseFigure.show = lambda figure, *args, **how: None  # HTA draws even where it is not asked to
    make = importlib.import_module(package + ".trace_analysis").TraceAnalysis

    def measure(what, call):
        begin = time.process_time()
        failed, value = "", None
        try:
            value = call()
        except Exception as error:
            failed = "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:80] if str(error) else "")
        line = {"what": what, "cpu": time.process_time() - begin, "failed": failed, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        print(json.dumps(line), file=real, flush=True)
        return value

    t = measure("load", lambda: make(trace_files={0: path}, trace_dir=os.path.dirname(path)))
    with tempfile.TemporaryDirectory() as folder:
        for what, call in calls(t, folder):
            measure(what, call)


# ---- side by side ---------------------------------------------------------------------------------------------------------------------

def notebook(python, package, path, patience):
    """{what: {cpu, failed, peak}} in order. A call that takes longer than patience ends the process; the rest is not run."""
    child = subprocess.Popen([python, str(HERE / "hta_answers.py"), "--work-on", package, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             text=True, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    answers = {}
    while True:
        ready, _, _ = select.select([child.stdout], [], [], patience)
        line = child.stdout.readline() if ready else ""
        if not line:
            break
        answer = json.loads(line)
        answers[answer.pop("what")] = answer
    if child.poll() is None and not ready:
        child.kill()
        answers["(stopped)"] = {"cpu": patience, "failed": "not ended after %d s" % patience, "peak": 0}
    child.wait()
    return answers


def verdict(ratio):
    return "yes" if ratio >= AIM else "must" if ratio >= MUST else "NO"


def compare(size, theirs, ours):
    """The rows of one trace. A call is measured from the file: with the loading that every answer needs; and by itself."""
    rows, stopped = [], theirs.pop("(stopped)", None)
    for what, mine in ours.items():
        other, is_load = theirs.get(what), what == "load"
        before = [0.0, 0.0] if is_load else [theirs["load"]["cpu"], ours["load"]["cpu"]]
        row = {"what": "%s: %s" % (size, what), "ours_s": before[1] + mine["cpu"], "ours_alone_s": mine["cpu"], "ours_failed": mine["failed"]}
        if other is None or other["failed"]:
            row["hta"] = (other or stopped or {"failed": "not run"})["failed"]
            stopped = None if other is None else stopped
        else:
            row.update(hta_s=before[0] + other["cpu"], hta_alone_s=other["cpu"], alone=other["cpu"] / max(mine["cpu"], 1e-6))
            row["ratio"] = row["hta_s"] / row["ours_s"]
        rows.append(row)
    both = [w for w in ours if w in theirs and not theirs[w]["failed"]]
    total = [sum(side[w]["cpu"] for w in both) for side in (theirs, ours)]
    peak = [max(a["peak"] for a in side.values()) for side in (theirs, ours)]
    rows.append({"what": "%s: the notebook, what both answer" % size, "hta_s": total[0], "ours_s": total[1], "ratio": total[0] / total[1], "ours_failed": ""})
    rows.append({"what": "%s: peak memory" % size, "hta_mb": peak[0] / 1e6, "ours_mb": peak[1] / 1e6, "ratio": peak[0] / peak[1], "ours_failed": ""})
    return rows


def say(row):
    if "hta_mb" in row:
        return "%-44s %9.0f MB %9.0f MB %8.1f x %s" % (row["what"], row["hta_mb"], row["ours_mb"], row["ratio"], "yes" if row["ratio"] >= MEMORY else "NO")
    if "ratio" in row:
        alone = "alone %8.4f s %8.5f s %6.0f x" % (row["hta_alone_s"], row["ours_alone_s"], row["alone"]) if "alone" in row else ""
        return "%-44s %9.3f s %9.4f s %6.0f x %-4s %s %s" % (row["what"], row["hta_s"], row["ours_s"], row["ratio"], verdict(row["ratio"]), alone, row["ours_failed"])
    return "%-44s %11s %9.4f s   HTA fails: %s %s" % (row["what"], "-", row["ours_s"], row["hta"], row["ours_failed"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", help="traces to work on instead of grown ones")
    parser.add_argument("--sizes", default="50,150", help="MB of grown traces")
    parser.add_argument("--hta-python", default=peers.find(), help="a Python that has HTA 0.5.0")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "tachograph-bench")
    parser.add_argument("--patience", type=float, default=900, help="seconds for one call")
    parser.add_argument("--out", help="write the rows as JSON")
    parser.add_argument("--work-on", nargs=2, metavar=("PACKAGE", "TRACE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work_on:
        return work(*args.work_on)
    if not args.hta_python:
        print("not measured: HTA 0.5.0 is not installed (python tests/python/peers.py make, or --hta-python)")
        return 0
    traces = {pathlib.Path(p).name: p for p in args.traces} or {"%s MB" % mb: grown(args.work, int(mb)) for mb in args.sizes.split(",")}
    rows = []
    for size, path in traces.items():
        made = compare(size, notebook(str(args.hta_python), "hta", path, args.patience), notebook(sys.executable, "tachograph.hta", path, args.patience))
        for row in made:
            print(say(row), flush=True)
        rows += made
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def grown(work, megabytes):
    work.mkdir(parents=True, exist_ok=True)
    path = work / ("grown-%d.json" % megabytes)
    if not path.exists():
        part = path.with_suffix(".part.json")
        grow.write(part, megabytes * 1_000_000)
        part.rename(path)
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
