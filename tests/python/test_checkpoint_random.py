"""checkpoint and cupti against looking at everything, on made-up runs."""

import random
from collections import defaultdict

import tachograph as tg
from hypothesis import given, settings, strategies as st
from reference_checkpoint import checkpoint
from reference_memory import Story

FEW = settings(max_examples=30, deadline=None)
SEEDS = st.integers(0, 1 << 32)


@FEW
@given(SEEDS)
def test_what_checkpoints_would_save(opened, seed):
    story = Story(seed)
    trace = opened(story.trace())
    layers, plain, changed = checkpoint(story)
    try:
        rows = trace.ask("checkpoint").to_dicts()
    except tg.TachographError as e:
        assert e.code == "NO_DATA" and not layers
        return
    got = {
        r["layer"]: tuple(
            r[c] for c in ("blocks", "activation_bytes", "freed_bytes", "kept_bytes", "saving_bytes", "recompute_ns")
        )
        for r in rows
    }
    total = got.pop("(all)")
    assert got == layers
    sums = [sum(row[k] for row in layers.values()) for k in range(6)]
    assert (rows[-1]["peak_bytes"], rows[-1]["peak_after_bytes"]) == (plain, changed)
    assert total == (*sums[:4], plain - changed, sums[5])


@FEW
@given(SEEDS, st.sampled_from([{"shift": 7000}, {"order": 3}, {"tracks": {1: 99, 2: 5}}, {"scale": 2}]))
def test_what_must_not_change_an_answer(opened, seed, how):
    story = Story(seed)
    try:
        want = opened(story.trace()).ask("checkpoint").to_dicts()
    except tg.TachographError:
        return
    got = opened(story.trace(**how)).ask("checkpoint").to_dicts()
    for row in want:
        row["recompute_ns"] *= how.get("scale", 1)
    assert got == want


# ---- counters of kernels -----------------------------------------------------------------------------------

HEAD, TAIL = "smsp__sass_thread_inst_executed_op_", "_pred_on.sum"
WEIGHTS = {
    HEAD + kind + TAIL: weight
    for kind, weight in (("ffma", 2), ("hfma", 2), ("dfma", 2), ("fadd", 1), ("hmul", 1), ("dadd", 1))
}
COUNTERS = [*WEIGHTS, "dram__bytes_read.sum", HEAD + "ffma_pred_off.sum", HEAD + "integer" + TAIL]


class Calls:
    """Operators in one another on several threads, launches among them, and as many ranges as there are launches; at
    times fewer."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.events, self.launches, self.clock = [], [], 100
        for thread in range(self.r.randint(1, 3)):
            self.clock = 100 + self.r.randint(0, 50)
            for _ in range(self.r.randint(1, 5)):
                self.call(thread, [])
        self.launches.sort()
        self.matched = self.r.random() < 0.85
        count = len(self.launches) if self.matched else len(self.launches) + self.r.choice((1, 2))
        self.ranges = []
        for k in range(count):
            counters = {c: self.r.randint(0, 1000) for c in self.r.sample(COUNTERS, self.r.randint(1, len(COUNTERS)))}
            name = self.r.choice(("gemm", "copy", "reduce"))
            self.ranges.append((name, counters))
            self.add("cuda_profiler_range", name, 10_000 + 10 * k, 10_005 + 10 * k, 77, counters)
        self.r.shuffle(self.events)

    def add(self, cat, name, start, stop, thread, args):
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 1,
                "tid": thread,
                "ts": start,
                "dur": stop - start,
                "args": args,
            }
        )

    def call(self, thread, around):
        """No two threads begin anything at the same moment."""
        start = self.clock + thread / 10
        name = self.r.choice(("aten::mm", "aten::add", "my::op"))
        self.clock += 1
        for _ in range(self.r.randint(0, 3)):
            if self.r.random() < 0.5:
                self.launch(thread, [*around, name])
            elif len(around) < 4:
                self.call(thread, [*around, name])
        self.clock += 1
        self.add("cpu_op", name, start, self.clock + thread / 10, thread, {})
        self.clock += 1
        if not around and self.r.random() < 0.3:
            self.launch(thread, [])

    def launch(self, thread, around):
        start = self.clock + thread / 10
        name = self.r.choice(("cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel", "cudaMemcpyAsync"))
        if name != "cudaMemcpyAsync":
            self.launches.append((start, around))
        self.clock += 2
        self.add("cuda_runtime", name, start, start + 1, thread, {})


@FEW
@given(SEEDS)
def test_counters_of_kernels_and_their_operators(opened, seed):
    calls = Calls(seed)
    if not calls.ranges:
        return
    trace = opened({"traceEvents": calls.events})
    stacks = [around for _, around in calls.launches] if calls.matched else [[] for _ in calls.ranges]

    def flops(counters):
        known = [WEIGHTS[c] * v for c, v in counters.items() if c in WEIGHTS]
        return sum(known) if known else None

    assert [
        (r["name"], r["op_stack"], r["top_level_op"], r["bottom_level_op"], r["flops"])
        for r in trace.ask("cupti", sort="start_ns asc")
    ] == [
        (name, " > ".join(s) or None, s[0] if s else None, s[-1] if s else None, flops(counters))
        for (name, counters), s in zip(calls.ranges, stacks)
    ]
    each = [
        (s[-1] if s else None, name, c, v)
        for (name, counters), s in zip(calls.ranges, stacks)
        for c, v in counters.items()
    ]
    assert sorted(
        (str(r["bottom_level_op"]), r["name"], r["counter"], r["value"], str(r["flops"]))
        for r in trace.ask("cupti", by="counter")
    ) == sorted((str(op), name, c, v, str(flops({c: v}))) for op, name, c, v in each)
    for by, key in (("op", lambda op, c: (op, c)), ("total", lambda op, c: (None, c))):
        want = defaultdict(lambda: [0, 0])
        for op, _, c, v in each:
            want[key(op, c)][0] += v
            want[key(op, c)][1] += 1
        got = {
            (r["bottom_level_op"] if by == "op" else None, r["counter"]): (r["value"], r["flops"], r["ranges"])
            for r in trace.ask("cupti", by=by)
        }
        assert got == {k: (v, WEIGHTS[k[1]] * v if k[1] in WEIGHTS else None, n) for k, (v, n) in want.items()}
