"""Our answers, brought into the form of the oracle: one function per section of `exact_policy`.

The oracle holds times in microseconds, whole ones as integers; we answer in nanoseconds. Nothing is computed here
beyond that change of unit, sums over the rows of a table, and picking rows: a figure that no question gives stays
absent.
"""

import re

PROFILER_STEP = re.compile(r"ProfilerStep\s*#\s*\d+")
STEP_PARTS = (
    "kernel_ns",
    "memcpy_ns",
    "memset_ns",
    "communication_ns",
    "runtime_ns",
    "dataloader_ns",
    "cpu_exec_ns",
    "other_ns",
    "total_ns",
)
STEP_COMM = ("computation_ns", "all_communication_ns", "overlap_ns", "neither_ns")
KERNEL_TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")


def us(ns):
    """ns -> us: an integer when whole. A real stays a real."""
    if ns is None:
        return None
    if isinstance(ns, float) and not ns.is_integer():
        return ns / 1000
    whole, rest = divmod(int(ns), 1000)
    return whole if rest == 0 else int(ns) / 1000


def total(rows, column):
    values = [r[column] for r in rows if r[column] is not None]
    return sum(values) if len(values) == len(rows) else None


def number(row):
    """The value of an overview row; exact where a text carries all digits."""
    text = row.get("text")
    if text is not None and text.lstrip("-").isdigit():
        return int(text)
    value = row["value"]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def summary(ask):
    by = {}
    for row in ask("overview"):
        by.setdefault(row["group"], []).append(row)
    facts = {r["quantity"]: r for r in by.get("summary", ())}
    out = {
        "categories": {r["quantity"]: number(r) for r in by.get("category", ())},
        "phases": {r["quantity"]: number(r) for r in by.get("phase", ())},
        "devices": [r["text"] for r in by.get("device", ())],
    }
    for key, quantity in (
        ("events", "events"),
        ("complete_events", "complete_events"),
        ("rank", "rank"),
        ("world_size", "world_size"),
        ("base_ns", "base_ns"),
    ):
        if quantity in facts:
            out[key] = number(facts[quantity])
    for key, quantity in (("first_ts_us", "first_ns"), ("last_end_us", "last_ns")):
        if quantity in facts:
            out[key] = us(number(facts[quantity]))
    return out


def gpu(ask):
    """{device: {utilization, sm_efficiency, occupancy}} out of the overview."""
    out = {}
    for row in ask("overview"):
        if row["group"] == "gpu":
            device, _, quantity = row["quantity"].partition(" ")
            value = row["value"]
            if row["unit"] == "%" and quantity != "occupancy" and value is not None:
                value /= 100
            out.setdefault(device, {})[quantity] = value
    return out


def steps(ask):
    """The annotations as written. Traces without ProfilerStep have no steps in the oracle; ours may have found some by
    other signs."""
    return [
        {"name": r["name"], "ts_us": us(r["start_ns"]), "dur_us": us(r["host_ns"])}
        for r in ask("steps", by="annotation")
        if r["name"] is not None and PROFILER_STEP.match(r["name"])
    ]


def tb_steps_fixed(ask):
    """Without ProfilerStep the oracle takes the whole recording as the one step; that is by=whole with us."""
    marked = any(r["name"] is not None and r["name"].startswith("ProfilerStep#") for r in ask("steps", by="annotation"))
    rows = ask("steps") if marked else ask("steps", by="whole")
    if not rows:
        return None
    mean = [r for r in ask("steps", by="summary") if r["step"] == "mean"] if marked else rows
    return {
        "steps": {"names": [r["step"] for r in rows], "costs": [[us(r[c]) for c in STEP_PARTS] for r in rows]},
        "average": [us(mean[0][c]) for c in STEP_PARTS] if mean else None,
        "comp_comm_overlap_other": [[us(r[c]) for c in STEP_COMM] for r in rows],
        "window_us": [us(rows[0]["start_ns"]), us(rows[-1]["start_ns"] + rows[-1]["total_ns"])],
        "gpu": gpu(ask),
    }


def links(ask):
    rows = ask("launches")
    keys = (
        "device_events",
        "without_host_call",
        "with_host_call",
        "op_by_external_id",
        "op_by_containment",
        "op_by_none",
    )
    return {k: total(rows, k) for k in keys}


def operators(ask):
    rows = ask("ops")
    pairs = (
        ("calls", "calls"),
        ("dev_self", "self_device_ns"),
        ("dev_total", "device_ns"),
        ("host_self", "self_cpu_ns"),
        ("host_total", "cpu_ns"),
    )
    out = {
        "rows": len(rows),
        "top": [{"name": r["name"], **{k: r[c] if k == "calls" else us(r[c]) for k, c in pairs}} for r in rows],
    }
    for key, column in pairs:
        out["sum_" + key] = total(rows, column) if key == "calls" else us(total(rows, column))
    return out


def tb_kernels(ask):
    rows = [r for r in ask("kernels") if (r["category"] or "").lower() == "kernel"]
    top = [
        {
            "name": r["name"],
            "calls": r["calls"],
            "sum": us(r["total_ns"]),
            "mean": us(r["mean_ns"]),
            "max": us(r["max_ns"]),
            "min": us(r["min_ns"]),
            "blocks_per_sm": r["blocks_per_sm"] or 0,
            "occupancy": r["occupancy_pct"] or 0,
        }
        for r in rows
    ]  # the oracle writes 0 for unknown
    return {"names": len(rows), "calls": total(rows, "calls"), "sum": us(total(rows, "total_ns")), "top": top}


def described(row):
    """Count, sum, max, min, mean and deviation, as the oracle writes them."""
    return {
        "count": row["calls"],
        "sum": us(row["total_ns"]),
        "max": us(row["max_ns"]),
        "min": us(row["min_ns"]),
        "mean": us(row["mean_ns"]),
        "std": us(row["std_ns"]),
    }


def kernels(ask):
    return [
        {"kernel_type": r["type"], "name": r["name"], **described(r)}
        for r in ask("kernels")
        if r["type"] in KERNEL_TYPES
    ]


def annotations(side):
    def section(ask):
        return [{"name": r["name"], **described(r)} for r in ask("annotations") if r["side"] == side]

    return section


def memory(ask):
    same = (
        "events",
        "allocations",
        "alloc_bytes",
        "free_bytes",
        "net_bytes",
        "peak_net_bytes",
        "with_addr",
        "paired",
        "never_freed",
        "free_without_alloc",
    )
    return {
        r["device"]: {
            **{k: r[k] for k in same},
            "peak_total_allocated": r["peak_allocated_bytes"],
            "peak_total_reserved": r["peak_reserved_bytes"],
        }
        for r in ask("memory")
    }


def temporal(ask):
    for r in ask("breakdown"):
        return {
            "idle_us": us(r["idle_ns"]),
            "compute_us": us(r["compute_ns"]),
            "non_compute_us": us(r["non_compute_ns"]),
            "kernel_time_us": us(r["kernel_time_ns"]),
            "idle_pct": r["idle_pct"],
            "compute_pct": r["compute_pct"],
            "non_compute_pct": r["non_compute_pct"],
        }
    return None


def overlap(ask):
    for r in ask("overlap"):
        return {
            "overlap_us": us(r["overlap_ns"]),
            "communication_us": us(r["communication_ns"]),
            "pct": r["overlap_pct"],
        }
    return {"overlap_us": 0, "communication_us": 0, "pct": None}


def types(ask):
    return {r["type"]: us(r["total_ns"]) for r in ask("kernel_types")}


def stream(row):
    return str(row["stream"]) if row["device"] is None else "%s/%s" % (row["device"], row["stream"])


def types_all_ranks(ask):
    return {r["type"]: us(r["total_ns"]) for r in ask("kernel_types", by="all")}


def idle(ask):
    out = {}
    for r in ask("idle"):
        out.setdefault(stream(r), {})[r["cause"]] = {
            "idle_us": us(r["idle_ns"]),
            "count": r["intervals"],
            "max": us(r["max_ns"]),
            "min": us(r["min_ns"]),
            "mean": us(r["mean_ns"]),
            "std": us(r["std_ns"]),
        }
    return out


def spread(row, count, suffix=""):
    keys = (
        ("mean", "mean"),
        ("std", "std"),
        ("min", "min"),
        ("25%", "p25"),
        ("50%", "p50"),
        ("75%", "p75"),
        ("max", "max"),
    )
    return {"count": row[count], **{k: row[c + suffix] for k, c in keys}}


def queue(ask):
    """The oracle takes a length of its own for each trace as full, so that a queue is full at times."""
    out = {
        stream(r): {**spread(r, "points"), "negative_points": r["negative"], "time_weighted_mean": r["time_mean"]}
        for r in ask("queue")
    }
    for limit in {w["blocked_limit"] for w in ask.want.values() if "blocked_limit" in w}:
        for r in ask("queue", by="full", max_length=limit):
            out[stream(r)].update(
                blocked_us=us(r["full_ns"]),
                blocked_limit=limit,
                blocked_relative=None if r["full_pct"] is None else r["full_pct"] / 100,
            )
    return out


def bandwidth(ask):
    return {r["kind"]: spread(r, "points", "_gbps") for r in ask("copy_bandwidth")}


def launch_stats(ask):
    rows = ask("launch_stats")
    pairs = (
        ("rows", "launches"),
        ("short_kernels", "short_kernels"),
        ("runtime_outliers", "call_outliers"),
        ("launch_delay_outliers", "delay_outliers"),
    )
    times = (("cpu_sum_us", "call_ns"), ("gpu_sum_us", "device_ns"), ("delay_sum_us", "delay_ns"))
    return {**{k: total(rows, c) for k, c in pairs}, **{k: us(total(rows, c)) for k, c in times}}


SECTIONS = {
    "summary": summary,
    "steps": steps,
    "links": links,
    "tb_steps_fixed": tb_steps_fixed,
    "operators": operators,
    "tb_kernels": tb_kernels,
    "kernels": kernels,
    "annotations_cpu": annotations("cpu"),
    "annotations_gpu": annotations("gpu"),
    "memory": memory,
    "temporal": temporal,
    "overlap": overlap,
    "types": types,
    "idle": idle,
    "queue": queue,
    "bandwidth": bandwidth,
    "launch_stats": launch_stats,
}
NOT_COUNTED = ("tb_steps_plugin", "kernels_names", "rows", "device_rows")  # the oracle's own rule
BOTH_RULES = (
    "temporal",
    "overlap",
    "types",
    "idle",
    "queue",
    "bandwidth",
    "launch_stats",
)  # their questions take rules=hta
