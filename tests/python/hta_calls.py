"""The calls of HolisticTraceAnalysis' public tutorials, once each, by keyword and by position: the same text runs on
either package.

    python hta_calls.py PACKAGE DIR OUT.pickle

PACKAGE: hta or tachograph.hta; DIR: the traces; answers as plain values"""

import importlib
import logging
import os
import pickle
import sys
import tempfile
import warnings


def plain(value):
    """Frames as columns with kinds, so that both versions of pandas can read them."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "columns"):
        value = value.reset_index()
        return {
            "columns": [str(c) for c in value.columns],
            "kinds": [str(d.kind) if d.kind in "if" else "O" for d in value.dtypes],
            "rows": [list(row) for row in value.itertuples(index=False, name=None)],
        }
    return value.item() if hasattr(value, "item") and not hasattr(value, "index") else value


def calls(t, folder):
    series = t.get_queue_length_time_series(ranks=[0, 1])
    yield "temporal", lambda: t.get_temporal_breakdown(visualize=False)
    yield "temporal by position", lambda: t.get_temporal_breakdown(False)
    yield "kernels", lambda: t.get_gpu_kernel_breakdown(num_kernels=5, include_memory_kernels=True, visualize=False)
    yield "kernels, all", lambda: t.get_gpu_kernel_breakdown(False, 0.8, 1000)
    yield "overlap", lambda: t.get_comm_comp_overlap(visualize=False)
    yield "idle", lambda: t.get_idle_time_breakdown(ranks=[0, 1], visualize=False, show_idle_interval_stats=True)
    yield "idle, delay", lambda: t.get_idle_time_breakdown([1], None, False, True, False, 5)[0]
    yield "queue", lambda: t.get_queue_length_summary(ranks=[0, 1])
    yield "queue from series", lambda: t.get_queue_length_summary_from_time_series(series)
    yield "blocked", lambda: t.get_time_spent_blocked_on_full_queue(series, 2)
    yield "bandwidth", lambda: t.get_memory_bw_summary([0, 1])
    yield (
        "launches",
        lambda: t.get_cuda_kernel_launch_stats(
            ranks=[0], runtime_cutoff=50, launch_delay_cutoff=100, include_memory_events=True, visualize=False
        ),
    )
    yield "annotations", lambda: t.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
    yield "steps", lambda: t.get_profiler_steps()
    yield (
        "sequences",
        lambda: t.get_frequent_cuda_kernel_sequences(
            operator_name="aten::", output_dir=folder, min_pattern_len=1, rank=0, top_k=2
        ),
    )
    yield (
        "op delays",
        lambda: t.get_aten_op_kernels_and_delay(ranks=[0], sort_by=["occurrence_count", "aten_op_name"])[0],
    )


def run(package, traces, **how):
    analysis = importlib.import_module(f"{package}.trace_analysis").TraceAnalysis(trace_dir=traces, **how)
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls(analysis, folder):
            answers[name] = plain(call())
    return answers


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("MPLBACKEND", "agg")
    answers = run(sys.argv[1], sys.argv[2])
    with open(sys.argv[3], "wb") as f:
        pickle.dump(answers, f)
