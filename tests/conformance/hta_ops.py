"""Ops with their kernels, kernel sequences and annotations by rules=hta beside what HolisticTraceAnalysis prints: the
sections of hta.units.UNIT that the questions op_kernels, sequences, kernel_annotations and annotations answer. Where
HTA failed there is nothing to compare."""

from compare import walk
from engine import Refused
from shape import total, us

NO_DATA = 3
ANNOTATION = {"sum": "sum (us)", "max": "max (us)", "min": "min (us)", "mean": "mean (us)", "std": "stddev"}


def ask_all(engine, path, question, **args):
    """Rows of every rank; what was never recorded has none."""
    try:
        return engine.ask(path, question, rules="hta", **args)
    except Refused as refusal:
        if refusal.status != NO_DATA:
            raise
        return []


def of_rank(rows, rank, ranks):
    """A single file may not say its rank."""
    return rows if len(ranks) == 1 else [r for r in rows if r["rank"] == int(rank)]


# ---- one function per section: (the oracle's value, ours) in one form, lists as maps because HTA leaves the order of
# ties open ------


def op_kernels(want, engine, path, ranks):
    rows = ask_all(engine, path, "op_kernels")
    ours, theirs = {}, {}
    for rank, section in want.items():
        mine = of_rank(rows, rank, ranks)
        table = {
            "%s|%s" % (r["op"], r["sequence"]): {
                "occurrence_count": r["calls"],
                "launch": round(r["launch_delay_ns"] / 1000, 3),
                "runtime": round(r["runtime_delay_ns"] / 1000, 3),
            }
            for r in mine
        }
        ours[rank] = {"rows": len(mine), "table": table}
        theirs[rank] = {
            "rows": section["rows"],
            "table": {
                "%s|%s" % (x["aten_op_name"], x["kernel_sequence"]): {
                    "occurrence_count": x["occurrence_count"],
                    "launch": x["avg_aten_op_launch_delay"],
                    "runtime": x["avg_runtime_delay"],
                }
                for x in section["top"]
            },
        }
    return theirs, ours


def pattern(kernel_us, op_us, count):
    return {"count": count, "kernel_us": kernel_us, "op_us": op_us}


def sequences(want, engine, path, ranks):
    """HTA looked only at the first rank."""
    ours, theirs = {}, {}
    for op, section in want.items():
        if "error" in section:
            continue
        rows = of_rank(ask_all(engine, path, "sequences", op=op, min_length=1), ranks[0], ranks)
        top = rows[: len(section.get("top", ()))]
        ours[op] = {
            "patterns": len(rows),
            "top": [r["pattern"] for r in top],
            "table": {r["pattern"]: pattern(us(r["kernel_ns"]), us(r["op_ns"]), r["count"]) for r in top},
        }
        theirs[op] = {"patterns": section["patterns"]}
        if "top" not in section:
            continue
        ours[op].update(sums=pattern(us(total(rows, "kernel_ns")), us(total(rows, "op_ns")), total(rows, "count")))
        theirs[op].update(
            sums=pattern(section["gpu_sum"], section["cpu_sum"], section["count_sum"]),
            top=[x["pattern"] for x in section["top"]],
            table={
                x["pattern"]: pattern(x["GPU kernel duration (us)"], x["CPU op duration (us)"], x["count"])
                for x in section["top"]
            },
        )
    return theirs, ours


def kernel_annotations(want, engine, path, ranks):
    rows = ask_all(engine, path, "kernel_annotations", by="annotation")
    ours, theirs = {}, {}
    for rank, section in want.items():
        if section is None:
            continue
        counts = {r["annotation"] or "": r["kernels"] for r in of_rank(rows, rank, ranks)}
        ours[rank] = {"rows": sum(counts.values()), "names": len(counts), "by_annotation": counts}
        theirs[rank] = {
            "rows": section["rows"],
            "names": len(section["by_annotation"]),
            "by_annotation": section["by_annotation"],
        }
    return theirs, ours


def annotations(side):
    def section(want, engine, path, ranks):
        rows = [r for r in ask_all(engine, path, "annotations") if r["side"] == side]
        theirs = {
            "%s/%s" % (x["rank"], x["name"]): {ours: x[column] for ours, column in ANNOTATION.items()}
            for x in want or ()
        }
        ours = {
            "%s/%s" % (ranks[0] if len(ranks) == 1 else r["rank"], r["name"]): {
                "sum": us(r["total_ns"]),
                "max": us(r["max_ns"]),
                "min": us(r["min_ns"]),
                "mean": us(r["mean_ns"]),
                "std": 0 if r["std_ns"] is None else us(r["std_ns"]),
            }
            for r in rows
        }
        return theirs, ours

    return section


SECTIONS = {
    "aten_op_kernels_and_delay": op_kernels,
    "frequent_sequences_min1": sequences,
    "gpu_kernels_with_user_annotations": kernel_annotations,
    "gpu_user_annotation_breakdown": annotations("gpu"),
    "cpu_user_annotation_breakdown": annotations("cpu"),
}


def compare_unit(engine, path, unit, count):
    """unit: hta.units.UNIT. Sections that failed, or that HTA had nothing for, are passed over."""
    for name, section in SECTIONS.items():
        want = unit.get(name)
        if not want or "error" in want:
            continue
        theirs, ours = section(want, engine, path, unit["ranks"])
        walk(count, name, theirs, ours)
