"""One side of hta_answers.py: hta_notebook.py SIDE TRACE PATIENCE, SIDE = hta, tachograph.hta or engine. A JSON line a
call."""

import contextlib
import importlib
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import time
import warnings


class TooLong(BaseException):
    """The patience is over; no handler of the package for its own errors may stop it."""


def calls(t, package, folder):
    """(what, call), in the order of a notebook. Later calls may use what earlier ones left in the object, as in one."""
    part = lambda name: importlib.import_module(package + name)
    yield "temporal breakdown", lambda: t.get_temporal_breakdown(visualize=False)
    yield "kernel breakdown", lambda: t.get_gpu_kernel_breakdown(visualize=False)
    yield "overlap", lambda: t.get_comm_comp_overlap(visualize=False)
    yield "idle time", lambda: t.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)
    yield "queue length series", t.get_queue_length_time_series
    yield "queue length summary", t.get_queue_length_summary
    yield (
        "time on a full queue",
        lambda: t.get_time_spent_blocked_on_full_queue(t.get_queue_length_time_series(), max_queue_length=8),
    )
    yield "bandwidth series", t.get_memory_bw_time_series
    yield "bandwidth summary", t.get_memory_bw_summary
    yield "launch statistics", lambda: t.get_cuda_kernel_launch_stats(visualize=False)
    yield "user annotations", lambda: t.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
    yield "profiler steps", t.get_profiler_steps
    yield "kernels with annotations", lambda: t.get_gpu_kernels_with_user_annotations(0)
    yield "stragglers", t.get_potential_stragglers
    yield "cupti counters", t.get_cupti_counter_data_with_operators
    yield (
        "trace with counters",
        lambda: t.generate_trace_with_counters(output_suffix="_with_counters_of_" + package.split(".")[0]),
    )
    yield "kernel sequences", lambda: t.get_frequent_cuda_kernel_sequences("aten::linear", folder, min_pattern_len=1)
    yield (
        "critical path of a step",
        lambda: t.critical_path_analysis(0, "ProfilerStep", 0)[0].get_critical_path_breakdown(),
    )
    yield "op kernels and delays", t.get_aten_op_kernels_and_delay
    steps = []
    yield "steps of a side of the diff", lambda: steps.extend(part(".trace_diff").LabeledTrace("a", t=t.t).iterations())
    yield (
        "trace diff",
        lambda: part(".trace_diff").TraceDiff.compare_traces(
            t.t, t.t, control_iteration=steps[0], test_iteration=steps[-1]
        ),
    )


def questions(t, folder):
    """The same, asked of the engine: as many answers, and of them the columns, as the call's frames need."""

    def ask(*names, **args):
        return lambda: [t.ask(name, limit="all", **args) for name in names]

    yield "temporal breakdown", ask("breakdown")
    yield "kernel breakdown", ask("kernel_types", "kernel_breakdown")
    yield "overlap", ask("overlap")
    yield "idle time", ask("idle")
    yield "queue length series", ask("queue", by="series", columns=["stream", "ts_ns", "length", "event", "track"])
    yield "queue length summary", ask("queue", by="summary")
    yield "bandwidth series", ask("copy_bandwidth", by="series", columns=["kind", "ts_ns", "gbps", "track"])
    yield "bandwidth summary", ask("copy_bandwidth", by="summary")
    yield (
        "launch statistics",
        ask("launch_stats", by="event", columns=["correlation", "call_ns", "device_ns", "delay_ns"]),
    )
    yield (
        "user annotations",
        ask(
            "annotations",
            columns=["name", "side", "calls", *(f"{c}_ns" for c in ("total", "max", "min", "mean", "std"))],
        ),
    )
    yield "kernels with annotations", ask("kernel_annotations", columns=["annotation", "event"])
    yield "kernel sequences", ask("sequences", op="aten::linear", min_length=1)
    yield "critical path of a step", ask("critical_path", by="edge", annotation="ProfilerStep", instance="0")
    yield "op kernels and delays", ask("op_kernels")


def quiet():
    """HTA logs, warns, and draws even where it is not asked to; a notebook's figures are no part of an answer."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(ImportError):
        import plotly.basedatatypes

        plotly.basedatatypes.BaseFigure.show = lambda figure, *args, **how: None


def too_long(*_):
    raise TooLong


def measurer(patience, out):
    def measure(what, call):
        begin, failed, value = time.process_time(), "", None
        signal.setitimer(signal.ITIMER_PROF, patience)
        try:
            value = call()
        except TooLong:
            failed = "not ended after %.0f s" % patience
        except Exception as error:
            failed = "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:80] if str(error) else "")
        signal.setitimer(signal.ITIMER_PROF, 0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            json.dumps({"what": what, "cpu": time.process_time() - begin, "peak": peak, "failed": failed}),
            file=out,
            flush=True,
        )
        return value

    return measure


def main(side, path, patience):
    out, sys.stdout = sys.stdout, sys.stderr  # HTA prints
    signal.signal(signal.SIGPROF, too_long)
    measure = measurer(float(patience), out)
    with tempfile.TemporaryDirectory() as folder:
        if side == "engine":
            import tachograph

            t, _ = measure("load", lambda: tachograph.open(path)), questions
            for what, call in questions(t, folder):
                measure(what, call)
            return
        if side == "hta":
            quiet()
        measure(
            "imports", lambda: (importlib.import_module("pandas"), importlib.import_module(side + ".trace_analysis"))
        )
        make = importlib.import_module(side + ".trace_analysis").TraceAnalysis
        t = measure("load", lambda: make(trace_files={0: path}, trace_dir=os.path.dirname(path)))
        for what, call in calls(t, side, folder):
            measure(what, call)


if __name__ == "__main__":
    main(*sys.argv[1:])
