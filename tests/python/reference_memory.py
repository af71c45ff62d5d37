"""Memory of made-up training steps, and what each block was for, by looking at everything: no cleverness, quadratic, a
page long."""

import random

BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"
LEAF = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
SOURCES = ("aten::empty", "aten::zeros", "aten::to", "aten::stack", "aten::clone")
NAMES = ("aten::linear", "aten::relu", "aten::empty", "aten::to", "aten::mul")
STEP_US, STEPS = 1000, 5


class Story:
    """`slices` (track, start, end, name, kind, module) and `events` (track, ts, bytes, addr), times in us; `tensors`
    (kind, name, bytes, addr). Slices begin and end at whole microseconds, events happen between them, so nothing is a
    tie."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.slices, self.events, self.tensors, self.passes, self.sequences = [], [], [], [], {}
        self.module_of_node = {}
        for k in range(STEPS):
            self._step(k * STEP_US + 1000)
        self._memory()

    def _add(self, track, start, length, name, kind="op", module=None):
        self.slices.append((track, start, start + length, name, kind, module))
        return len(self.slices) - 1

    def _step(self, t):
        self._add(1, t, 950, f"ProfilerStep#{t // STEP_US}", "step")
        self._add(1, t + 1, 40, "enumerate(DataLoader)#_Iter.__next__", "loader")
        self._add(1, t + 5, 20, "aten::stack")
        layers = self.random.randint(1, 4)
        nodes = []
        for i in range(layers):
            at, module = t + 60 + 70 * i, None
            if self.random.random() < 0.7:
                module = f"layers.{i}"
                self._add(1, at - 2, 60, f"nn.Module: Linear_{i}", "module", module)
            op = self._add(1, at, 50, self.random.choice(NAMES))
            self._add(1, at + 5, 30, "aten::empty")
            nodes.append((op, module))
        begin = t + 400
        for i, (op, module) in enumerate(reversed(nodes)):
            node = self._add(2, begin + 70 * i, 50, BACKWARD, "backward")
            self._add(2, begin + 70 * i + 10, 30, "aten::mm")
            self.sequences[op] = self.sequences[node] = len(self.sequences)
            self.module_of_node[node] = module
            end = begin + 70 * i + 50
            if self.random.random() < 0.6:
                self.module_of_node[self._add(2, end + 2, 16, LEAF, "backward")] = None
                end += 18
        self.passes.append((begin, end))
        self._add(1, t + 750, 100, "Optimizer.step#SGD.step", "optimizer")
        self._add(1, t + 755, 30, "aten::mul")

    def _memory(self):
        r, end = self.random, STEPS * STEP_US + 2000
        times = r.sample(range(1000, end - 1), 2 * 60 + 8)
        for i in range(60):
            addr, first, second = 0x1000 + 0x100 * r.randint(0, 200), *sorted(times[2 * i : 2 * i + 2])
            if r.random() < 0.5:  # more of them soon freed
                second = min(second, first + r.randint(1, 60))
            size = r.randint(1, 5000)
            self.events.append((r.choice((1, 1, 2)), first + 0.5, size, addr))
            if r.random() < 0.85 and second > first:
                self.events.append((r.choice((1, 1, 2)), second + 0.25, -size, addr))
        for i, kind in enumerate(("parameter", "gradient", "optimizer_state", "buffer")):
            self.tensors.append(
                (
                    kind,
                    f"layers.{i}.weight" + (".exp_avg" if kind == "optimizer_state" else ""),
                    100 + i,
                    0x900000 + 0x100 * i,
                )
            )
            if r.random() < 0.5:
                self.events.append((1, times[120 + i] + 0.75, -(100 + i), 0x900000 + 0x100 * i))
        self.events.sort(key=lambda e: e[1])

    def trace(self, shift=0, scale=1, order=None, tracks=None):
        """The same story as Kineto events; moved, stretched, in another order, on threads of other names."""

        def ts(us):
            return us * scale + shift

        tracks = tracks or {1: 11, 2: 12}
        out = []
        for i, (track, start, stop, name, kind, module) in enumerate(self.slices):
            args = {"Module path": module, "Python module id": 1} if kind == "module" else {}
            if i in self.sequences:
                args |= {"Sequence number": self.sequences[i], "Fwd thread id": 1 if kind == "backward" else 0}
            cat = {"module": "python_function", "op": "cpu_op", "backward": "cpu_op"}.get(kind, "user_annotation")
            out.append(
                {
                    "ph": "X",
                    "cat": cat,
                    "name": name,
                    "pid": 1,
                    "tid": tracks[track],
                    "ts": ts(start),
                    "dur": (stop - start) * scale,
                    "args": args,
                }
            )
        out += [
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[tensor]",
                "pid": 1,
                "tid": tracks[1],
                "ts": ts(999),
                "args": {"Kind": kind, "Tensor": name, "Bytes": size, "Addr": addr, "Device Type": 0, "Device Id": -1},
            }
            for kind, name, size, addr in self.tensors
        ]
        out += [
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 1,
                "tid": tracks[track],
                "ts": ts(when),
                "args": {"Bytes": size, "Addr": addr, "Device Type": 0, "Device Id": -1},
            }
            for track, when, size, addr in self.events
        ]
        if order is not None:
            random.Random(order).shuffle(out)
        return {"traceEvents": out}

    # ---- looking at everything -----------------------------------------------------------------------------

    def around(self, track, ts):
        """Slices around a moment, outermost first."""
        return sorted(
            (i for i, s in enumerate(self.slices) if s[0] == track and s[1] <= ts < s[2]),
            key=lambda i: (self.slices[i][1], -self.slices[i][2]),
        )

    def followed(self):
        """Every block as a dict: bytes, made, freed, and where that was; in the order they were taken."""
        open_ones, seen, found = {}, set(), []
        for kind, name, size, addr in self.tensors:
            open_ones[addr] = {"bytes": size, "made": None, "freed": None, "told": kind, "name": name}
            found.append(open_ones[addr])
            seen.add(addr)
        for track, ts, size, addr in self.events:
            before = open_ones.pop(addr, None)
            if size > 0:
                if before:
                    before["freed"] = ts
                open_ones[addr] = {"bytes": size, "made": ts, "freed": None, "track": track, "told": None}
                found.append(open_ones[addr])
            elif before:
                before |= {"freed": ts, "freed_at": self.around(track, ts)}
            elif addr not in seen:
                found.append({"bytes": -size, "made": None, "freed": ts, "told": None})
            seen.add(addr)
        return found

    def blocks(self):
        """(bytes, made, freed, category, module, innermost operator) of every block; times in us."""
        return [(b["bytes"], b["made"], b["freed"], *self.judge(b)) for b in self.followed()]

    def judge(self, b):
        if b["told"]:
            return b["told"], b["name"].removesuffix(".exp_avg").rsplit(".", 1)[0], None
        if b["made"] is None:
            return "unknown", None, None

        def is_op(i):
            return self.slices[i][4] in ("op", "backward")

        made = self.around(b["track"], b["made"])
        ops = [i for i in made if is_op(i)]
        kinds = {self.slices[i][4]: i for i in made}
        top = ops[0] if ops else None
        node = kinds.get("backward")
        module = (
            self.module_of_node[node]
            if node is not None
            else next((self.slices[i][5] for i in reversed(made) if self.slices[i][4] == "module"), None)
        )
        freed_ops = [i for i in b.get("freed_at", ()) if is_op(i)]
        same = top is not None and bool(freed_ops) and freed_ops[0] == top
        into_leaf = bool(freed_ops) and self.slices[freed_ops[0]][3] == LEAF
        return self.category(b, kinds, top, same, into_leaf), module, self.slices[ops[-1]][3] if ops else None

    def category(self, b, kinds, top, same, into_leaf):
        made, freed = b["made"], b["freed"]
        if "backward" in kinds:
            stop = next(stop for start, stop in self.passes if start <= made < stop)
            handed_on = freed is not None and freed <= stop and not into_leaf
            return "temporary" if same else "autograd_detail" if handed_on else "gradient"
        if same:
            return "temporary"
        if "optimizer" in kinds:
            return (
                "temporary" if freed is not None and freed <= self.slices[kinds["optimizer"]][2] else "optimizer_state"
            )
        if "loader" in kinds or (top is not None and "module" not in kinds and self.slices[top][3].startswith(SOURCES)):
            return "input"
        if top is None:
            return "unknown"
        begin = next((start for start, _ in self.passes if start > made), None)
        if begin is not None and (freed is None or freed > begin):
            return "activation"
        return "unknown" if freed is None else "temporary"

    def leaks(self):
        """{(operator, module): (blocks, bytes)} of what each step but the first and last took and kept."""
        starts = [s[1] for s in self.slices if s[4] == "step"]
        end, sites = [s[2] for s in self.slices if s[4] == "step"][-1], {}
        for size, made, freed, _, module, op in self.blocks():
            step = None if made is None else sum(start <= made for start in starts) - 1
            if step is not None and 0 < step < STEPS - 1 and (freed is None or freed > end):
                sites.setdefault((op, module), []).append((step, size))
        return {
            site: (len(taken), sum(size for _, size in taken))
            for site, taken in sites.items()
            if {s for s, _ in taken} == set(range(1, STEPS - 1))
        }

    def levels(self):
        """[(ts, {category: bytes})] after each change; what was there before is in the first."""
        blocks = self.blocks()
        times = sorted({ts for b in blocks for ts in b[1:3] if ts is not None})
        out = []
        for ts in times:
            now = {}
            for size, made, freed, category, _, _ in blocks:
                if (made is None or made <= ts) and (freed is None or freed > ts):
                    now[category] = now.get(category, 0) + size
            out.append((ts, now))
        return out
