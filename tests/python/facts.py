"""The facts of a Chrome trace of a CPU program, in a form that two recordings of the same program must agree on. Reads
only the JSON, with nothing of tachograph's."""

import collections
import decimal
import gzip
import json

SHOWN = ("cpu_op", "user_annotation")


def load(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return json.load(f, parse_float=decimal.Decimal)["traceEvents"]  # a double is too coarse for times since 1970


def nanoseconds(value):
    return int(value * 1000)


class Facts:
    def __init__(self, path):
        self.events = load(path)
        slices = [e for e in self.events if e.get("ph") == "X" and e.get("cat") in SHOWN]
        self.main = collections.Counter(e["tid"] for e in slices).most_common(1)[0][0]
        # (event, names of what encloses it, outermost first), of the thread with most operators
        self.ops = self.nested([e for e in slices if e["tid"] == self.main])
        numbers = [e["args"]["Sequence number"] for e, _ in self.ops if "Sequence number" in e.get("args", {})]
        self.first_number = min(numbers, default=0)

    @staticmethod
    def nested(slices):
        slices.sort(key=lambda e: (nanoseconds(e["ts"]), -nanoseconds(e["dur"]), e.get("args", {}).get("Ev Idx", 0)))
        around, found = [], []
        for e in slices:
            start = nanoseconds(e["ts"])
            while around and nanoseconds(around[-1]["ts"]) + nanoseconds(around[-1]["dur"]) <= start:
                around.pop()
            found.append((e, tuple(a["name"] for a in around)))
            around.append(e)
        return found

    def operations(self, *, keep=lambda name: True):
        """Counter of (name, what encloses it, dims, types, concrete inputs, sequence number from the first)."""
        found = collections.Counter()
        for e, around in self.ops:
            if not keep(e["name"]):
                continue
            args = e.get("args", {})
            number = args.get("Sequence number")
            found[
                (
                    e["name"],
                    around,
                    json.dumps(args.get("Input Dims")),
                    json.dumps(args.get("Input type")),
                    json.dumps(args.get("Input Strides")),
                    json.dumps(args.get("Concrete Inputs")),
                    None if number is None else number - self.first_number,
                )
            ] += 1
        return found

    def links(self):
        """Counter of (forward operator, backward operator) joined by an arrow."""
        at = collections.defaultdict(list)
        for e, _ in self.ops:
            at[(e["tid"], nanoseconds(e["ts"]))].append(e["name"])
        ends = collections.defaultdict(dict)
        for e in self.events:
            if e.get("cat") == "fwdbwd" and e.get("ph") in "sf":
                ends[e["id"]][e["ph"]] = at[(e["tid"], nanoseconds(e["ts"]))]
        return collections.Counter(
            (pair["s"][0], pair["f"][0]) for pair in ends.values() if pair.get("s") and pair.get("f")
        )

    def memory(self):
        """Bytes allocated, by the innermost operator at that moment on that thread; and all bytes allocated."""
        slices = collections.defaultdict(list)
        for e, _ in self.ops:
            slices[e["tid"]].append((nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"]), e["name"]))
        by = collections.Counter()
        for e in self.events:
            if e.get("name") != "[memory]" or e["args"]["Bytes"] <= 0 or e["tid"] != self.main:
                continue
            when = nanoseconds(e["ts"])
            inside = [s for s in slices[e["tid"]] if s[0] <= when <= s[1]]
            by[max(inside)[2] if inside else None] += e["args"]["Bytes"]
        return by

    def stacks(self, belongs):
        """Counter of (operator, frames innermost first) over the frames that `belongs` keeps."""
        return collections.Counter(
            (e["name"], tuple(f for f in e.get("args", {}).get("Call stack", "").split(";") if belongs(f)))
            for e, _ in self.ops
        )

    def modules(self):
        """Counter of (operator, module calls around it, outermost first) by the time of nn.Module spans on the
        thread."""
        spans = collections.defaultdict(list)
        for e in self.events:
            if e.get("ph") == "X" and e["name"].startswith("nn.Module: "):
                spans[e["tid"]].append((nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"]), e["name"]))
        found = collections.Counter()
        for e, _ in self.ops:
            start, end = nanoseconds(e["ts"]), nanoseconds(e["ts"]) + nanoseconds(e["dur"])
            around = sorted((s for s in spans[e["tid"]] if s[0] <= start and end <= s[1]), key=lambda s: (s[0], -s[1]))
            found[(e["name"], tuple(s[2] for s in around))] += 1
        return found
