"""roofline against a plain walk over random calls: of nested operators the outermost whose work is known stands for all
in it, with their time, unless those in it do more of the same kind."""

import collections
import json
import random

from hypothesis import given, settings, strategies as st
from test_property import SETTINGS

FEW = settings(SETTINGS, max_examples=30)


class Call:
    def __init__(self, rnd, start, end, depth, around=None):
        self.start, self.end, self.kernels = start, end, []
        names = ("aten::mm", "aten::add", "aten::cat", "aten::view", "my::op", "my::other")
        self.name = rnd.choice(
            [n for n in names if n != around]
        )  # a single one inside another of its name is the same call
        n, k, m = (rnd.randint(1, 5) for _ in range(3))
        self.args, self.work = {}, None
        if self.name == "aten::mm":
            self.args = {"Input Dims": [[n, k], [k, m]], "Input type": ["float", "float"]}
            self.work = ("matmul", "fp32", 2 * n * k * m, 4 * (n * k + k * m + n * m))
        elif self.name == "aten::add":
            self.args = {"Input Dims": [[n, k], [k], []], "Input type": ["c10::Half", "c10::Half", "Scalar"]}
            self.work = ("elementwise", "fp16", n * k, 2 * (n * k + k + n * k))
        elif (
            self.name == "aten::cat"
        ):  # of tensors no other call has, in more dimensions than those: their type is not known
            self.args = {"Input Dims": [[[n, k, m, 1], [n, k, m, 2]], []], "Input type": ["TensorList", "Scalar"]}
            self.work = ("copy", None, 0, None)
        cuts = (
            sorted(rnd.sample(range(start + 1, end), 2 * min(rnd.randint(0, 3), (end - start - 1) // 2)))
            if depth < 4 and end - start > 3
            else []
        )
        self.inside = [Call(rnd, a, b, depth + 1, self.name) for a, b in zip(cuts[::2], cuts[1::2])]

    def walk(self):
        yield self
        for c in self.inside:
            yield from c.walk()


def launch(rnd, roots, events):
    at = 2_000_000
    for root in roots:
        for call in root.walk():
            free = [t for t in range(call.start, call.end) if not any(c.start <= t <= c.end for c in call.inside)]
            for _ in range(rnd.randint(0, 2) if free else 0):
                correlation, dur = len(events) + 1, rnd.randint(1, 40)
                call.kernels.append(dur)
                where = rnd.choice(free)
                events.append(event("cuda_runtime", "cudaLaunchKernel", where, 0.001, 1, correlation=correlation))
                events.append(event("kernel", "k", at, dur, 7, device=0, stream=7, correlation=correlation))
                at += dur + 1


def event(cat, name, ts, dur, tid, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0 if cat == "kernel" else 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def expected(roots, device):
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])

    def time_of(call, whole):
        if device:
            return 1000 * sum(sum(c.kernels) for c in (call.walk() if whole else [call]))
        return 1000 * (call.end - call.start - (0 if whole else sum(c.end - c.start for c in call.inside)))

    def done(call, kind):
        """Operations of this kind by the call and what it calls."""
        below = sum(done(c, kind) for c in call.inside)
        own = [] if not call.work or call.name == "aten::cat" else [call.work[2]] if call.work[0] == kind else [0]
        if own and stands(call):
            return own[0]
        return below

    def stands(call):
        return sum(done(c, call.work[0]) for c in call.inside) <= call.work[2]

    def visit(call, above):
        counts = (
            call.work and not above and (not counted_below(call) if call.name == "aten::cat" else stands(call))
        )  # lists: where nothing in it counts
        kind, precision, flops, size = call.work if counts else ("unknown", None, None, None)
        if not above and time_of(call, counts):  # what took no time of the device has no rate
            row = rows[(call.name, kind, precision)]
            row[0] += 1
            row[1] += time_of(call, counts)
            row[2] = None if flops is None else row[2] + flops
            row[3] = None if size is None else row[3] + size
        for c in call.inside:
            visit(c, above or counts)

    def counted_below(call):
        return any((c.work and c.name != "aten::cat") or counted_below(c) for c in call.inside)

    for root in roots:
        visit(root, False)
    return {k: tuple(v) for k, v in rows.items()}


@FEW
@given(seed=st.integers(0, 2**32), device=st.booleans())
def test_the_outermost_known_operator_stands_for_all_in_it(engine, tmp_path_factory, seed, device):
    rnd = random.Random(seed)
    roots = [Call(rnd, 100 * k, 100 * k + rnd.randint(5, 90), 0) for k in range(rnd.randint(1, 6))]
    if not any(c.args for r in roots for c in r.walk()):
        return
    events = [event("cpu_op", c.name, c.start, c.end - c.start, 1, **c.args) for r in roots for c in r.walk()]
    if device:
        launch(rnd, roots, events)
        device = any(c.kernels for r in roots for c in r.walk())
    rnd.shuffle(events)
    path = tmp_path_factory.mktemp("roofline") / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    got = {
        (r["name"], r["kind"], r["precision"]): (r["calls"], r["time_ns"], r["flops"], r["bytes"])
        for r in engine.ask(path, "roofline")
    }
    assert got == expected(roots, device)
