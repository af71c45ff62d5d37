"""Every figure of the report, made here from the answers of questions: what the text must say, word for word."""

import json
import re
import subprocess

FIGURE = re.compile(r"(?<![\w.])-?\d[\d.]*(?: \d{3})* (?:%|[mun]?s\b|[kMGT]?B\b)")
PARTS = (
    ("kernel_ns", "kernels"),
    ("memcpy_ns", "copies"),
    ("memset_ns", "memsets"),
    ("communication_ns", "communication"),
    ("runtime_ns", "runtime calls"),
    ("dataloader_ns", "data loader"),
    ("operator_ns", "CPU operators"),
    ("bare_ns", "no operator"),
)


def in_parts(value, size, decimals):
    """value in parts of a unit, rounded."""
    step = size // 10**decimals
    return (value + step // 2) // step


def with_unit(value, units):
    """Three digits that matter, and the unit, in integers as the report does it."""
    size, unit = units[0]
    for k, (larger, name) in enumerate(units[1:]):
        if value >= larger - (size // 2 if k else 0):
            size, unit = larger, name
    if size == 1:
        return f"{value} {unit}"
    decimals = next(d for d in (2, 1, 0) if not d or in_parts(value, size, d) < 1000)
    parts = in_parts(value, size, decimals)
    rest = f".{parts % 10**decimals:0{decimals}}" if decimals else ""
    return f"{parts // 10**decimals}{rest} {unit}"


def time(ns):
    return with_unit(ns, ((1, "ns"), (10**3, "us"), (10**6, "ms"), (10**9, "s")))


def size(count):
    return with_unit(count, ((1, "B"), (10**3, "kB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB")))


def percent(value):
    return f"{value:.1f} %"


class Trace:
    """A trace and the command line that answers for it, once for each command."""

    def __init__(self, program, path):
        self.program, self.path, self.outputs = str(program), str(path), {}

    def run(self, *words):
        words = tuple(map(str, words))
        if words not in self.outputs:
            done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=600)
            self.outputs[words] = done.stdout if done.returncode == 0 else None
        return self.outputs[words]

    def answer(self, question, **args):
        words = [w for k, v in args.items() for w in (f"--{k}", str(v))]
        said = self.run("ask", self.path, question, *words, "--json")
        return json.loads(said) if said else None

    def rows(self, question, **args):
        answer = self.answer(question, **args)
        names = [c["name"] for c in answer["columns"]] if answer else []
        return [dict(zip(names, row, strict=True)) for row in (answer["rows"] if answer else [])]


def of_rank(trace):
    """The argument rank of the questions: the rank with the longest steps, where there are several."""
    means = [r for r in trace.rows("steps", by="summary") if r["step"] == "mean"]
    if len({r["rank"] for r in trace.rows("overview")}) < 2:
        return {}
    return {"rank": max(means, key=lambda r: (r["total_ns"], -r["rank"]))["rank"] if means else 0}


def extent(trace):
    rows = [r for r in trace.rows("overview") if r["group"] == "summary" and r["value"] is not None]
    spans = [r["value"] for r in rows if r["quantity"] == "span_ns"]
    texts = sum(r["value"] for r in rows if r["quantity"] == "json_bytes")
    return ([time(int(max(spans)))] if spans else []) + ([f"{size(int(texts))} of text"] if texts else [])


def links(trace):
    rows = trace.rows("launches")
    work, called = (sum(r[c] for r in rows) for c in ("device_events", "with_host_call"))
    op = called - sum(r["op_by_none"] for r in rows)
    out = []
    if work and called < work:
        out.append(f"{percent(1000 * called // work / 10)} of device events to their launch")
    if called and op < called:
        out.append(
            f"{percent(1000 * op // called / 10)} of {'them' if called < work else 'device events'} to an operator"
        )
    return out


def threads(trace, rank):
    rows = trace.rows("tracks", where="kind = 'cpu' and slices > 0", sort="busy_ns desc", **rank)
    if len(rows) < 2:
        return []
    rest = sum(r["busy_ns"] or 0 for r in rows[3:])
    return [time(r["busy_ns"]) for r in rows[:3]] + ([f"{time(rest)} together"] if rows[3:] else [])


def steps(trace, rank):
    rows = trace.rows("steps", **rank)
    by = {r["step"]: r for r in trace.rows("steps", by="summary", **rank)}
    if not by:
        return []
    mean = by["mean"]
    out = [time(by["p50"]["total_ns"])]
    if rows[0]["name"] != "whole recording" and len(rows) > 1:
        many = len(rows) >= 10
        low, high = (time(by[k]["total_ns"]) for k in (("p10", "p90") if many else ("min", "max")))
        out = [f"{out[0]} median, {'80 % in ' if many else ''}{low} to {high}"]
    if (mean["core_wait_ns"] or 0) > 0.05 * mean["host_ns"]:
        out.append(f"no core for {100 * mean['core_wait_ns'] / mean['host_ns']:.0f} %")
    return out + [f"{time(mean[c])} {percent(100 * mean[c] / mean['total_ns'])}" for c, _ in PARTS if mean[c] > 0]


def code(trace, rank):
    """Time of compiled, replayed and eager work in the mean step, where some of it is compiled or replayed."""
    if not trace.rows("steps", **rank):
        return []
    mean = next(r for r in trace.rows("steps", by="summary", **rank) if r["step"] == "mean")
    kinds_of = {k: mean[f"{k}_ns"] for k in ("compiled", "replayed", "eager")}
    if None in kinds_of.values():
        return []
    return [f"{kind} {time(ns)} ({percent(100 * ns / mean['total_ns'])})" for kind, ns in kinds_of.items()]


def labels(trace, rank):
    rows = trace.rows("steps", **rank)
    host = sum(r["host_ns"] for r in rows)
    where = "side = 'cpu' and name !~ 'ProfilerStep#' and name !~ 'enumerate(Data' and total_ns > 0"
    found = trace.rows("annotations", sort="total_ns desc", limit=8, where=where, **rank) if host else []
    return [
        f"{time(r['total_ns'])} {percent(100 * r['total_ns'] / host) if r['total_ns'] <= host else '-'}"
        for r in found
        if r["name"] != rows[0]["name"]
    ]


def phases(trace, rank):
    rows = [r for r in trace.rows("phases", **rank) if r["host_ns"] > 0]
    if not {"backward", "optimizer"} & {r["phase"] for r in rows}:
        return []
    names = {"other": "the rest"}
    out = [f"{names.get(r['phase'], r['phase'])} {time(int(r['host_ns']))} ({percent(r['share_pct'])})" for r in rows]
    means = [r["total_ns"] for r in trace.rows("steps", by="summary", **rank) if r["step"] == "mean"]
    host_ns = sum(int(r["host_ns"]) for r in rows)
    is_other_time = means and means[0] > 0 and abs(host_ns - int(means[0])) > int(means[0]) // 100
    return out + [f"; of {time(host_ns)} a step on the host"] * bool(is_other_time)


def usual(values):
    """What usual steps take on average: from five steps on the largest counts as the next one."""
    values = sorted(values)
    if len(values) >= 5:
        values[-1] = values[-2]
    return sum(values) / len(values)


def tops(trace, rank):
    out = []
    for side in ("cpu", "device"):
        where = f"self_{side}_ns > 0"
        rows = trace.rows("ops", sort=f"self_{side}_ns desc", limit=5, where=where, **rank)
        out += [f"{time(r[f'self_{side}_ns'])} {percent(r[f'self_{side}_pct'])}" for r in rows]
    rows = trace.rows("kernels", sort="total_ns desc", limit=5, **rank)
    return out + [f"{time(r['total_ns'])} {percent(r['pct'])}" for r in rows]


def measured(trace, rank):
    """The shares of the line `measured`: those of breakdown, steps and mfu, or of a finding about the same time."""
    found = {r["cause"]: r["share_pct"] for r in reversed(trace.rows("findings", **rank))}
    by = {r["step"]: r for r in trace.rows("steps", by="summary", **rank)}
    if not by:
        return []
    mean, devices = by["mean"], trace.rows("breakdown", by="device", window="steps", **rank)
    loader, communication = (100 * mean[c] / mean["total_ns"] for c in ("dataloader_ns", "communication_ns"))
    loader = found.get("loader-in-main-process", found.get("loader-too-slow", loader))
    if "rank-straggler" in found:  # takes back the findings of each rank about its collectives: of 3 steps the least
        steps = trace.rows("steps", **rank)
        communication = 100 * min(r["communication_ns"] for r in steps) / mean["total_ns"]
    out = [
        f"data loader {percent(loader)}",
        f"exposed communication {percent(found.get('communication-not-overlapped', communication))}",
    ]
    if "idle-device" in found:
        out.append(f"without a kernel {percent(found['idle-device'])}")
    if devices:
        busy = percent(sum(r["busy_pct"] for r in devices) / len(devices))
        out.append(f"device busy {busy}" if len(devices) == 1 else f"devices busy, on average, {busy}")
    else:
        out.append(f"in operators {percent(100 * mean['operator_ns'] / mean['total_ns'])}")
    out.append(f"median {by['p50']['total_ns'] / 1e6:.2f} ms, mean {mean['total_ns'] / 1e6:.2f} ms")
    return out + [
        f"at {percent(r['mfu_pct'])} of the peak" for r in trace.rows("mfu", by="rank", **rank) if r["mfu_pct"]
    ]


def saving(r, is_second):
    """The saving of a finding, as the report words it."""
    low, high = r["saving_low_ns"], r["saving_high_ns"]
    said = f"about {time(r['saving_ns'])}" if low is None else f"up to {time(high)}"
    if low is not None and low > 0:
        said = f"{time(low)} to {time(high)}"
    if low is not None and low < 0:
        said += f", or costs up to {time(-low)}"
    return f"saves {said}", ", after what is above" if is_second else ""


def findings(trace, rank):
    """Texts of findings are their columns; the cost and the saving are two."""
    each = "in all" if trace.rows("steps", **rank)[0]["name"] == "whole recording" else "a step"
    out, saved = [], set()
    for r in trace.rows("findings", **rank)[:3]:
        cost = f"costs {percent(r['share_pct'])}, {time(r['cost_ns'])} {each}" if r["cost_ns"] is not None else None
        out += [r["evidence"], r["advice"], cost or percent(r["share_pct"])]
        if r["saving_ns"]:
            said, behind = saving(r, r["rank"] in saved)
            out.append(f"{said} {each}{behind}: {r['method']}")
        if r["saving_ns"] is not None:
            saved.add(r["rank"])
    return [" ".join(text.split()) for text in out if text]


def kinds(trace, rank):
    """The kinds of bottleneck that take time, with the arithmetic of the largest; and the values of six questions."""
    rows = trace.rows("bottleneck", **rank)
    out = [" ".join(rows[0]["evidence"].split())] if rows else []
    out += [f"{r['kind']} {percent(r['share_pct'])}" for i, r in enumerate(rows) if not i or r["share_pct"] > 0]
    asked = [r for r in trace.rows("six_questions", **rank) if r["value"] is not None]
    return out + [f"{r['question']} {r['answer']}, {r['value']:.1f} {r['unit']}" for r in asked]


def snapshot(trace):
    out = []
    for r in trace.rows("fragmentation"):
        share, how = (r["mean_unused_percent"], " on average") if r["mean_unused_percent"] is not None else (
            r["unused_percent"],
            "",
        )  # fmt: skip
        out.append(
            f"{r['device']}: {size(r['peak_allocated'])} in use at the peak, {size(r['reserved'])} held of the device, "
            f"{percent(share)} of it unused{how}"
        )
    rows = trace.rows("memory_stacks", sort="peak_bytes desc", limit=5, where="peak_bytes > 0")
    return out + [size(r["peak_bytes"]) for r in rows]


def figures(trace):
    """What the report of this trace says, in pieces with at least one figure each."""
    rank = of_rank(trace)
    if any(r["text"] == "memory_snapshot" or r["quantity"] == "memory_snapshot" for r in trace.rows("overview")):
        return extent(trace) + snapshot(trace)
    out = extent(trace) + links(trace) + threads(trace, rank) + steps(trace, rank) + code(trace, rank)
    if trace.rows("findings", **rank) or trace.answer("findings", **rank):
        out += findings(trace, rank)
    return out + kinds(trace, rank) + labels(trace, rank) + phases(trace, rank) + tops(trace, rank)
