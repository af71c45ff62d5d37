"""The oracle's values about many ranks: the TensorBoard plugin's distributed view and HolisticTraceAnalysis'
stragglers.

`tb.units.UNIT.distributed` against collectives (rules=plugin), steps, overview and tracks;
`hta.units.UNIT.potential_stragglers_N` against stragglers (rules=hta). Values that the plugin gets wrong are counted
against the corrected ones where the oracle has them (exact_policy's comp_comm_overlap_other stands for the computation
and communication of traces whose collective kernels it misses)."""

from compare import GONE, Count, close
from engine import Refused

PARTS = ("computation_ns", "all_communication_ns", "overlap_ns", "neither_ns")


def us(ns):
    return ns / 1000


def worker_number(worker):
    return int(worker.rsplit("_", 1)[1])


class Views:
    """Our answers in the plugin's form, for one unit."""

    def __init__(self, engine, path, many):
        self.engine, self.path, self.many = engine, path, many

    def ask(self, question, rank=None, **args):
        if rank is not None and self.many:
            args["rank"] = rank
        return self.engine.ask(self.path, question, **args)

    def comm_ops(self, rank):
        rows = self.ask("collectives", rank, rules="plugin", by="rank")
        return {
            r["kind"]: [
                r["calls"],
                r["bytes"],
                round_half_even(r["bytes"] / r["calls"]),
                us(r["total_ns"]),
                round_half_even(us(r["total_ns"]) / r["calls"]),
                us(r["transfer_ns"]),
                round_half_even(us(r["transfer_ns"]) / r["calls"]),
            ]
            for r in rows
        }

    def waits(self, rank):
        """Per step [transfer, synchronising]; `all` is the mean over the steps that the plugin lists, cut to whole
        microseconds."""
        rows = self.ask("collectives", rank, rules="plugin", by="step")
        steps = {r["step"] or "None": [us(r["transfer_ns"]), us(r["wait_ns"])] for r in rows if r["calls"]}
        return (
            {**steps, "all": [int(sum(s[k] for s in steps.values()) / len(steps)) for k in range(2)]} if steps else {}
        )

    def overlaps(self, rank):
        """Per step [only computation, both, only communication, neither]."""
        steps = {}
        for r in self.ask("steps", rank):
            computation, communication, both, neither = (us(r[c]) for c in PARTS)
            steps[r["step"]] = [computation - both, both, communication - both, neither]
        return (
            {**steps, "all": [int(sum(s[k] for s in steps.values()) / len(steps)) for k in range(4)]} if steps else {}
        )

    def devices(self, rank):
        """Of the devices that ran anything: name and bytes of memory."""
        used = {int(r["pid"]) for r in self.ask("tracks", rank) if r["kind"] == "device"}
        facts = {r["quantity"]: r for r in self.ask("overview", rank) if r["group"] in ("device", "property")}
        return {
            "GPU%d" % d: {
                "Name": facts[str(d)]["text"],
                "Memory Raw": facts["%d total_memory" % d]["value"],
                "Compute Capability": "%d.%d"
                % (facts["%d compute_major" % d]["value"], facts["%d compute_minor" % d]["value"]),
            }
            for d in sorted(used)
            if str(d) in facts
        }


def round_half_even(x):
    return round(x)


def compare_list(count, path, want, got):
    for k, w in enumerate(want):
        count.total += 1
        g = got[k] if got is not None and k < len(got) else GONE
        if close(w, g, path + "_us"):
            count.agree += 1
        else:
            count.differences.append(("%s[%d]" % (path, k), w, g))


def compare_distributed(views, want, count, skip_overlap):
    for worker, table in want["comm_ops"]["data"].items():
        got = views.comm_ops(worker_number(worker))
        for name, *values in table["rows"]:
            compare_list(count, "comm_ops.%s.%s" % (worker, name), values, got.get(name))
    for section, ours in (("steps_to_wait", views.waits), ("steps_to_overlap", views.overlaps)):
        if section == "steps_to_overlap" and skip_overlap:
            continue
        for step, workers in want[section]["data"].items():
            for worker, values in workers.items():
                compare_list(count, "%s.%s.%s" % (section, step, worker), values, ours(worker_number(worker)).get(step))
    for processes in ((want.get("gpu_info") or {}).get("data") or {}).values():
        for process, gpus in processes.items():
            got = views.devices(int(process.split()[1]))
            for gpu, facts in gpus.items():
                for key, value in facts.items():
                    if key != "Memory":  # the same number in words
                        count.leaf("gpu_info.%s.%s.%s" % (process, gpu, key), value, got.get(gpu, {}).get(key, GONE))


def compare_stragglers(views, unit, count):
    for key, want in unit.items():
        if not key.startswith("potential_stragglers_") or isinstance(want, dict):
            continue
        rows = views.ask("stragglers", rules="hta", candidates=key.rsplit("_", 1)[1])
        for k, w in enumerate(want):
            count.leaf("%s[%d]" % (key, k), w, rows[k]["rank"] if k < len(rows) else GONE)


def misses_kernels(oracle, unit):
    """Does a note say that the plugin does not see the collectives' kernels here? Then its computation holds them,
    too."""
    return any(n["unit"] == unit and n["where"].startswith("tb.avg_costs") for n in oracle.get("notes") or ())


def compare_unit(engine, path, oracle, unit, many, errors):
    """A Count of the unit's values, empty when it has none."""
    count, views = Count(), Views(engine, path, many)
    try:
        distributed = ((oracle.get("tb") or {}).get("units") or {}).get(unit, {}).get("distributed")
        if distributed:
            compare_distributed(views, distributed, count, misses_kernels(oracle, unit))
        compare_stragglers(views, ((oracle.get("hta") or {}).get("units") or {}).get(unit, {}), count)
    except Refused as refusal:
        errors.append("%s, ranks: exit %d: %s" % (path.name, refusal.status, refusal.text.split("\n")[0]))
    return count
