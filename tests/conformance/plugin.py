"""What the TensorBoard plugin's analysis gives and the plain reference does not: modules, tensor cores, memory by
operator, and which of its seven recommendations it makes. Ours with tensor=plugin where name lists decide."""

import json
from collections import Counter as Sums

from compare import walk
from engine import Refused
from shape import us

NO_DATA = 3
# what the plugin's text holds → the row of plugin_advice for the same rule, in its order
RULES = {
    "data loading": "loader",
    "DistributedDataParallel instead": "data_parallel",
    "Nccl backend": "backend",
    "cost on communication": "communication",
    "low utilization": "utilization",
    "Tensor Cores eligible": "tensor_cores",
    "GPU memory": "device_memory",
}
COUNTS = {"occurences": "calls", "operators": "ops"}
TIMES = {"host": "cpu_ns", "self_host": "python_ns", "device": "device_ns", "self_device": "self_device_ns"}
MEMORY = ("calls", "net_bytes", "self_net_bytes", "allocations", "self_allocations", "alloc_bytes", "self_alloc_bytes")


def ask_all(engine, path, question, rank, **args):
    """What was never recorded has no rows."""
    try:
        return engine.ask(path, question, **args, **({} if rank is None else {"rank": rank}))
    except Refused as refusal:
        if refusal.status != NO_DATA:
            raise
        return []


# ---- one function per section: (the plugin's value, ours) in one form


def flat(tree):
    """The plugin gives a module one sum and shows it at each of its places; deep parts of the tree were cut off."""
    out = {}
    for node in tree:
        if "name" in node:
            out[node["name"]] = {**{key: node[key] for key in COUNTS}, **{key + "_us": node[key] for key in TIMES}}
            out.update(flat(node["children"]))
    return out


def modules(want, engine, path, rank):
    sums = {}
    for row in ask_all(engine, path, "modules", rank):
        if row["depth"] is not None:
            sums.setdefault(row["name"], Sums()).update(
                {column: row[column] or 0 for column in (*COUNTS.values(), *TIMES.values())}
            )
    return flat(want["tree"]), {
        name: {
            **{key: s[column] for key, column in COUNTS.items()},
            **{key + "_us": us(s[column]) for key, column in TIMES.items()},
        }
        for name, s in sums.items()
    }


def recommendations(want, engine, path, rank):
    made = {row["rule"]: row["is_made"] for row in ask_all(engine, path, "plugin_advice", rank)}
    return (
        {rule: any(rule in text for text in want) for rule in RULES},
        {rule: made[ours] for rule, ours in RULES.items()},
    )


def tensor_cores(want, engine, path, rank):
    """Share of kernel time, and the mark of each kernel. (The plugin's figures by operator follow from its links.)"""
    rows = [
        r for r in ask_all(engine, path, "kernels", rank, tensor="plugin") if (r["category"] or "").lower() == "kernel"
    ]
    time = sum(r["total_ns"] for r in rows)
    ours = {
        "used_ratio_pct": 100 * sum(r["total_ns"] for r in rows if r["tensor_cores"]) / time if time else None,
        "kernels": {r["name"]: r["tensor_cores"] for r in rows},
    }
    theirs = {
        "used_ratio_pct": want["ratio"] if want["ratio"] is None else 100 * want["ratio"],
        "kernels": {row[0]: row[1] == "Yes" for row in want["rows"]},
    }
    return theirs, ours


def eligible(want, engine, path, rank):
    rows = ask_all(engine, path, "ops", rank, tensor="plugin")
    return {row["name"]: row["tc_eligible"] for row in want}, {row["name"]: row["tensor_eligible"] for row in rows}


def kib(size):
    """As the plugin shows sizes: two decimals, below 0.01 one significant digit."""
    value = size / 1024
    return round(value, 2) if abs(value) >= 0.01 else float("%.1g" % value)


def memory(want, engine, path, rank):
    ours = {}
    for row in ask_all(engine, path, "memory_ops", rank):
        figures = [kib(row[column]) if "bytes" in column else row[column] for column in MEMORY]
        ours.setdefault(row["device"], {})[row["op"]] = dict(zip(MEMORY, figures))
    return {device: {row[0]: dict(zip(MEMORY, row[1:])) for row in rows} for device, rows in want.items()}, ours


def sections(worker):
    """(name, function, the plugin's value) for what this worker has."""
    if isinstance(worker.get("modules"), dict):
        yield "modules", modules, worker["modules"]
    yield "recommendations", recommendations, worker["recommendations_text"]
    if isinstance(worker.get("kernels"), dict):
        yield "tensor_cores", tensor_cores, {"ratio": worker["tc_used_ratio"], "rows": worker["kernels"]["rows"]}
        yield "eligible", eligible, worker["operators"]["top"]
    stats = (worker.get("memory") or {}).get("stats")
    if stats:
        yield "memory_ops", memory, stats


def compare_counters(engine, folder, count):
    """The utilisation the plugin writes into a trace, where the folder holds such a file: a percentage for each row of
    equal width. Its first two points set the axis and its last one closes it."""
    written = folder / "expected.json"
    events = json.loads(written.read_text()).get("traceEvents", []) if written.exists() else []
    for device in sorted({e["pid"] for e in events if e["ph"] == "C" and e["name"].endswith(" Utilization")}):
        points = [e for e in events if e["ph"] == "C" and e["name"] == "GPU %d Utilization" % device][2:-1]
        rows = [r for r in engine.ask(folder / "input.json", "device_metrics", by="time") if r["device"] == device]
        walk(
            count,
            "counters.%d" % device,
            [{"ts": e["ts"], "utilization_pct": e["args"]["GPU Utilization"]} for e in points],
            [{"ts": r["start_ns"] // 1000, "utilization_pct": r["utilization_pct"]} for r in rows],
        )


def compare_unit(engine, path, unit, count):
    """All workers of a unit of the oracle's `tb`, and the counters beside its file."""
    if path.name == "input.json":
        compare_counters(engine, path.parent, count)
    workers = unit.get("workers") or {}
    for rank, worker in workers.items():
        for name, compare, want in sections(worker):
            theirs, ours = compare(want, engine, path, rank if len(workers) > 1 else None)
            walk(count, "workers.%s.%s" % (rank, name), theirs, ours)
