"""The oracle's `hta` values on critical paths and CUPTI counters, beside our answers with rules=hta.

reference.py computes neither, so HolisticTraceAnalysis' own figures count. They are written per launch-edge setting and
window as {"zero_weight_launch_edge_0": {"all": {…}, "ProfilerStep_1": {…}}}; a window is an annotation and the instance
behind the last _.
"""

from compare import GONE, walk
from engine import Refused

TYPES = {
    "operator": "critical_path_operator",
    "dependency": "critical_path_dependency",
    "launch_delay": "critical_path_kernel_launch_delay",
    "kernel_delay": "critical_path_kernel_kernel_delay",
    "sync_dependency": "critical_path_sync_dependency",
}
# Windows whose label is not the annotation itself.
ANNOTATIONS = {"alexnet_forward": "[param|pytorch.model.alex_net|0|0|0|measure|forward]"}


def us(ns):
    return ns // 1000


def critical_path(ask, arguments):
    """One path in the form of the oracle."""
    (whole,) = ask("critical_path", by="rank", **arguments)
    kinds = ask("critical_path", by="kind", **arguments)
    bounds = ask("critical_path", by="bound", **arguments)
    return {
        "success": True,
        "graph_nodes": whole["graph_nodes"],
        "graph_edges": whole["graph_edges"],
        "path_nodes": whole["nodes"],
        "path_events": whole["events"],
        "path_edges": whole["edges"],
        "path_weight": us(whole["weight_ns"]),
        "graph_edges_by_type": {TYPES[k["kind"]]: k["graph_edges"] for k in kinds},
        "path_edges_by_type": {TYPES[k["kind"]]: k["edges"] for k in kinds if k["edges"]},
        "path_weight_by_type": {TYPES[k["kind"]]: us(k["weight_ns"]) for k in kinds if k["edges"]},
        "breakdown_us_by_bound": {b["bound_by"]: us(b["weight_ns"]) for b in bounds},
    }


def compare_paths(ask, want, count):
    for setting, windows in want.items():
        for window, path in windows.items():
            if "error" in path:
                continue  # it fails there; nothing to compare
            arguments = {"rules": "hta", "launch_edges": setting[-1]}
            if window != "all":
                name, arguments["instance"] = window.rsplit("_", 1)
                arguments["annotation"] = ANNOTATIONS.get(name, name)
            try:
                got = critical_path(ask, arguments)
            except Refused:
                got = GONE
            walk(count, "critical_path.%s.%s" % (setting, window), path, got, whole=True)


def compare_cupti(ask, want, count):
    totals = {r["counter"]: int(r["value"]) for r in ask("cupti", by="total")}
    rows = ask("cupti", by="range")
    walk(count, "cupti_counters.rows", want["rows"], len(rows))
    walk(count, "cupti_counters.counter_sums", want["counter_sums"], totals)
    counters = {}
    for r in ask("cupti", by="counter"):
        counters.setdefault(r["event"], {})[r["counter"]] = int(r["value"])
    for k, first in enumerate(want["first"]):
        got = {
            "name": rows[k]["name"],
            "top": rows[k]["top_level_op"],
            "bottom": rows[k]["bottom_level_op"],
            **counters[rows[k]["event"]],
        }
        walk(count, "cupti_counters.first[%d]" % k, first, {key: got.get(key, GONE) for key in first})


def compare(ask, peer, count):
    """peer: hta.units.UNIT of the oracle."""
    if isinstance(peer.get("critical_path"), dict):
        compare_paths(ask, peer["critical_path"], count)
    if peer.get("cupti_counters") and "rows" in peer["cupti_counters"]:
        compare_cupti(ask, peer["cupti_counters"], count)
