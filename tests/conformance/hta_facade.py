"""The façade with hta_compat=True beside what HolisticTraceAnalysis prints: every number below hta.units.UNIT, and
hta.memory_timeline. Left out are errors and timings. It asks the installed package, not a command line."""

import collections
import contextlib
import math
import os
import warnings

from compare import MISSING, Absent, Count  # noqa: F401

KEYS = (
    {"rank", "stream", "idle_category"},
    {"kernel_type", "name", "rank"},
    {"('rank', '')", "('stream', '')"},
    {"('rank', '')", "('name', '')"},
    {"kernel_type"},
    {"name", "rank"},
    {"aten_op_name", "kernel_sequence"},
    {"pattern"},
    {"correlation"},
    {"rank"},
    {"name"},
)
CUT = {
    "kernels_unlimited": 120,
    "kernels_default": 120,
    "first": 5,
    "top": None,
    "rows": None,
    "cpu_user_annotation_breakdown": 60,
    "gpu_user_annotation_breakdown": 60,
}  # lists that the oracle cuts
LEFT_OUT = {"load", "_seconds", "error"}
WINDOWS = {"alexnet_forward": "|measure|forward]"}  # how the oracle abbreviates an annotation


def plain(value):
    """Python's own numbers for numpy's; NaN as the oracle writes it."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    return value


def records(frame):
    """Rows of a frame as dicts; columns of two levels by the pair's text, as the oracle has them."""
    return [{str(k): plain(v) for k, v in zip(frame.columns, row)} for row in frame.itertuples(index=False, name=None)]


# ---- one function per section: from the façade's frames to the oracle's form -------------------------------


def kernel_breakdown(t, want):
    types, default = t.get_gpu_kernel_breakdown(visualize=False)
    unlimited = t.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**6)[1]
    return {
        "types": records(types),
        "kernels_default": records(default),
        "kernels_unlimited": records(unlimited),
        "kernels_unlimited_rows": len(unlimited),
    }


def idle(t, want):
    breakdown, stats = t.get_idle_time_breakdown(ranks=t.t.get_ranks(), visualize=False, show_idle_interval_stats=True)
    rows = [{"index": i, **row} for i, row in zip(breakdown.index.tolist(), records(breakdown))]
    return {"breakdown": rows, "interval_stats": records(stats.reset_index())}


def queue_summary(t, want):
    frame = t.get_queue_length_summary(ranks=t.t.get_ranks())
    return [] if frame is None else records(frame.reset_index())


def queue_series(t, want):
    series = t.get_queue_length_time_series(ranks=t.t.get_ranks())
    blocked = t.get_time_spent_blocked_on_full_queue(series, max_queue_length=want["max_queue_length"])
    return {
        "points": {str(r): len(f) for r, f in series.items()},
        "max": {str(r): plain(f["queue_length"].max()) for r, f in series.items()},
        "min": {str(r): plain(f["queue_length"].min()) for r, f in series.items()},
        "max_queue_length": want["max_queue_length"],
        "blocked": [] if blocked is None else records(blocked),
    }


def bandwidth(t, want):
    frame = t.get_memory_bw_summary(ranks=t.t.get_ranks())
    return [] if frame is None else records(frame.reset_index())


def launch_stats(t, want):
    result = {}
    for rank, f in t.get_cuda_kernel_launch_stats(ranks=t.t.get_ranks(), visualize=False).items():
        cpu, gpu, delay = f["cpu_duration"], f["gpu_duration"], f["launch_delay"]
        result[str(rank)] = {
            "rows": len(f),
            "cpu_sum": plain(cpu.sum()),
            "gpu_sum": plain(gpu.sum()),
            "delay_sum": plain(delay.sum()),
            "short_kernels": int(((cpu <= 50) & (gpu < cpu)).sum()),
            "runtime_outliers": int((cpu > 50).sum()),
            "launch_delay_outliers": int((delay > 100).sum()),
            "first": records(f.head(5)),
        }
    return result


def op_delays(t, want):
    frames = t.get_aten_op_kernels_and_delay(ranks=t.t.get_ranks())
    return {str(rank): {"rows": len(f), "top": records(f)} for rank, f in frames.items()}


def sequences(t, want):
    result = {}
    for op, answer in want.items():
        if "error" in answer:
            continue
        with scratch() as folder:
            f = t.get_frequent_cuda_kernel_sequences(operator_name=op, output_dir=folder, min_pattern_len=1)
        result[op] = {
            "patterns": len(f),
            "count_sum": plain(f["count"].sum()),
            "gpu_sum": plain(f["GPU kernel duration (us)"].sum()),
            "cpu_sum": plain(f["CPU op duration (us)"].sum()),
            "top": records(f),
        }
    return result


def annotations(use_gpu):
    def section(t, want):
        frame = t.get_gpu_user_annotation_breakdown(use_gpu_annotation=use_gpu, visualize=False)
        return None if frame is None else records(frame)

    return section


def kernels_annotated(t, want):
    result = {}
    for rank in t.t.get_ranks():
        frame = t.get_gpu_kernels_with_user_annotations(rank)
        named = None if frame is None else collections.Counter(frame["s_user_annotation"])
        result[str(rank)] = None if frame is None else {"rows": len(frame), "by_annotation": dict(named)}
    return result


@contextlib.contextmanager
def scratch():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        yield folder


@contextlib.contextmanager
def environment(name, value):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.__setitem__(name, before)


def one_path(t, window):
    annotation, _, instance = ("", "", "") if window == "all" else window.rpartition("_")
    annotation = WINDOWS.get(annotation, annotation)
    graph, success = t.critical_path_analysis(
        rank=t.t.get_ranks()[0], annotation=annotation, instance_id=int(instance) if instance else None
    )
    by_type = collections.Counter(e.type.value for e in graph.critical_path_edges_set)
    weight = collections.Counter()
    for edge in graph.critical_path_edges_set:
        weight[edge.type.value] += plain(edge.weight)
    bound = collections.Counter()
    for row in records(graph.get_critical_path_breakdown()):
        bound[row["bound_by"]] += row["duration"]
    edges = collections.Counter(edge.type.value for edge in graph.edge_objects())
    return {
        "success": success,
        "graph_nodes": graph.number_of_nodes(),
        "graph_edges": graph.number_of_edges(),
        "graph_edges_by_type": edges,
        "path_nodes": len(graph.critical_path_nodes),
        "path_events": len(graph.critical_path_events_set),
        "path_edges": len(graph.critical_path_edges_set),
        "path_edges_by_type": by_type,
        "path_weight_by_type": weight,
        "path_weight": sum(weight.values()),
        "breakdown_us_by_bound": bound,
    }


def critical_path(t, want):
    result = {}
    for setting, windows in want.items():
        with environment("CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE", setting[-1]):
            result[setting] = {w: one_path(t, w) for w, answer in windows.items() if "error" not in answer}
    return result


def cupti(t, want):
    frame = t.get_cupti_counter_data_with_operators()[0]
    counters = want["counter_sums"]
    first = [
        {
            "name": row["s_name"] if "s_name" in frame.columns else row["name"],
            "top": row["top_level_op"],
            "bottom": row["bottom_level_op"],
            **{c: row[c] for c in counters},
        }
        for row in records(frame.head(len(want["first"])))
    ]
    return {"rows": len(frame), "counter_sums": {c: plain(frame[c].sum()) for c in counters}, "first": first}


SECTIONS = {
    "ranks": lambda t, want: t.t.get_ranks(),
    "profiler_steps": lambda t, want: t.get_profiler_steps(),
    "temporal_breakdown": lambda t, want: records(t.get_temporal_breakdown(visualize=False)),
    "comm_comp_overlap": lambda t, want: records(t.get_comm_comp_overlap(visualize=False)),
    "gpu_kernel_breakdown": kernel_breakdown,
    "idle_time_breakdown": idle,
    "queue_length_summary": queue_summary,
    "queue_length_series": queue_series,
    "memory_bw_summary": bandwidth,
    "cuda_kernel_launch_stats": launch_stats,
    "aten_op_kernels_and_delay": op_delays,
    "frequent_sequences_min1": sequences,
    "gpu_user_annotation_breakdown": annotations(True),
    "cpu_user_annotation_breakdown": annotations(False),
    "gpu_kernels_with_user_annotations": kernels_annotated,
    "critical_path": critical_path,
    "cupti_counters": cupti,
    "potential_stragglers_1": lambda t, want: t.get_potential_stragglers(num_candidates=1),
    "potential_stragglers_2": lambda t, want: t.get_potential_stragglers(num_candidates=2),
}


# ---- counting ----------------------------------------------------------------------------------------------


def close(want, got, path):
    """Integers exactly, decimals to 1e-9 or 1 ns, percentages to 0.005."""
    if isinstance(want, (bool, str)) or isinstance(got, (bool, str)) or got is None or isinstance(got, Absent):
        return want == got
    if isinstance(want, int):
        return got == want
    slack = 0.005 if "pctg" in path or "percentage" in path else 0.0
    if any(word in path for word in ("(us)", "stddev", "duration", "delay", "idle_time", "interval_stats")):
        slack = max(slack, 0.001)
    return abs(got - want) <= max(slack, 1e-9 * abs(want))


def counts(want):
    """Is this a value of the comparison? Numbers are, and a NaN that HTA prints."""
    return (isinstance(want, (int, float)) and not isinstance(want, bool)) or want == "NaN"


def key_of(row):
    for columns in KEYS:
        if columns <= row.keys():
            return tuple(row[c] for c in sorted(columns))
    return None


def pairs(want, got):
    """Rows that belong together, by what names them, else by position."""
    keys = [key_of(row) for row in want]
    if None in keys or len(set(keys)) < len(keys):
        for i, row in enumerate(want):
            yield str(i), row, got[i] if i < len(got) else {}
        return
    index = {key_of(row): row for row in got}
    for key, row in zip(keys, want):
        yield "/".join(str(part)[:60] for part in key), row, index.get(key, {})


def walk(count, path, want, got):
    if isinstance(want, dict):
        for k, w in want.items():
            if k not in LEFT_OUT:
                walk(count, f"{path}.{k}", w, got.get(k, MISSING) if isinstance(got, dict) else MISSING)
    elif isinstance(want, list):
        walk_list(count, path, want, got if isinstance(got, list) else [])
    elif counts(want):
        count.total += 1
        if close(want, got, path):
            count.agree += 1
        else:
            count.differences.append((path, want, got))


def walk_list(count, path, want, got):
    last = path.rsplit(".", 1)[-1]
    if want and isinstance(want[0], dict):
        for label, w, g in pairs(want, got):
            walk(count, f"{path}[{label}]", w, g)
    else:
        for i, w in enumerate(want):
            walk(count, f"{path}[{i}]", w, got[i] if i < len(got) else MISSING)
    cut = CUT.get(last, 0)
    if cut is not None and len(got) > len(want) and (not cut or len(want) < cut):
        count.differences.append((path + ".length", len(want), len(got)))


def open_unit(path):
    from tachograph.hta.trace_analysis import TraceAnalysis

    if path.is_dir():
        return TraceAnalysis(trace_dir=str(path), hta_compat=True)
    return TraceAnalysis(trace_files=[str(path)], trace_dir="", hta_compat=True)


def compare(path, unit, count, errors):
    """Every section of one unit. A failure is reported once and counts as absent."""
    warnings.simplefilter("ignore")
    analysis = open_unit(path)
    for name, want in unit.items():
        if name in LEFT_OUT or (isinstance(want, dict) and "error" in want):
            continue
        if name not in SECTIONS:
            errors.append(f"{path.name}: no section {name}")
            continue
        try:
            got = SECTIONS[name](analysis, want)
        except Exception as error:  # whatever it is, it is an answer that is missing
            errors.append(
                f"{path.name}, {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
            got = MISSING
        walk(count, name, want, got)


def missing():
    """Why the façade cannot be compared here; None when it can."""
    try:
        import pandas  # noqa: F401
        import tachograph.hta.trace_analysis  # noqa: F401
    except ImportError as error:
        return f"the façade was not compared: {error}"
    return None


def compare_timeline(folder, want, count):
    """A raw memory timeline beside the trace."""
    from tachograph.hta.memory_analysis import MemoryAnalysis

    path = next(p for p in sorted(folder.iterdir()) if "timeline" in p.name)
    analysis = MemoryAnalysis(str(path), hta_compat=True)
    totals = analysis.sizes.sum(axis=1)
    peak = int(totals.argmax())
    walk(
        count,
        "memory_timeline",
        want,
        {
            "snapshots": len(totals),
            "first_time": int(analysis.times[0]),
            "last_time": int(analysis.times[-1]),
            "peak_total": int(totals[peak]),
            "peak_index": peak,
            "peak_time": int(analysis.times[peak]),
            "peak_by_category": analysis.sizes[peak].tolist(),
            "final": analysis.sizes[-1].tolist(),
            "max_by_category": analysis.sizes.max(axis=0).tolist(),
        },
    )
