"""Random runs of many ranks: groups that overlap, sends and receives, collectives out of CUDA graphs, clocks hours
apart that drift, ranks that end early.

make(seed) plays a run in true time and returns its ranks as reference_ranks.py takes them, with their events;
write(folder, run) writes them as Kineto does. The expected facts of each collective (group, number, when it was
asked for) is noted beside its events."""

import json
import pathlib
import random

WORD = {"all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "all_reduce": "allreduce"}
KERNEL = {
    "all_reduce": "AllReduce",
    "barrier": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
OF_KERNEL = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "SendRecv": "send_recv",
}
LIBRARIES = {
    "nccl": (
        "nccl:",
        (
            "ncclDevKernel_%s_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_%s_RING_LL_Sum_float(ncclWorkElem)",
        ),
    ),
    "rccl": ("nccl:", ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "rcclGenericKernel")),
    "hccl": ("hccl:", ("hccl_kernel",)),
    "xccl": ("xccl:", ("oneccl_reduce_base<float, 2, 16, 1, 1, 2>",)),
    "gloo": ("gloo:", ()),
    "mpi": ("mpi:", ()),
}
START = 10**13 + 10**10


def ranks_text(members):
    return "[%s%s]" % (", ".join(map(str, members[:30])), ", ..." if len(members) > 30 else "")


class Group:
    def __init__(self, name, what, members, said):
        self.name, self.what, self.members, self.said = name, what, members, said
        self.next = 0  # number of its next collective

    def args(self):
        out = {"Group size": len(self.members), "Process Group Name": self.name}
        if self.said != "name":
            out["Process Group Description"] = self.what
        if self.said == "ranks":
            out["Process Group Ranks"] = ranks_text(self.members)
        return out

    def text(self, ends=""):
        parts = (
            [self.name]
            + [self.what] * (self.said != "name" and self.what != "undefined")
            + [ranks_text(self.members)[:160]] * (self.said == "ranks")
        )
        return " ".join(parts + [ends] * bool(ends))


class Rank:
    def __init__(self, run, number):
        rnd = run.rnd
        self.run, self.number, self.base = run, number, 1_700_000_000_000_000_000 + rnd.choice((0, 5_000, 10**9))
        self.ahead = rnd.randint(-(10**13), 10**13) if run.hours else rnd.randint(-300_000, 300_000)
        self.gain = rnd.uniform(-60e-6, 60e-6) if run.drifts else 0
        self.now, self.over = START + rnd.randint(0, 100_000), False
        self.busy, self.sent, self.correlation = {}, {}, 0  # by group: when its stream is free; transfers so far
        self.steps, self.collectives, self.events = [], [], []

    def at(self, ns):
        """A true time on this rank's clock."""
        return ns + self.ahead + round(self.gain * (ns - START)) - (self.base - 1_700_000_000_000_000_000)

    def add(self, cat, name, tid, start, end, **args):
        if not self.over:
            self.events.append((cat, name, 0 if cat == "kernel" else 1, tid, self.at(start), self.at(end), args))

    def fresh(self):
        self.correlation += 1
        return self.correlation

    def take_part(self, group, kind, word, ends, number, size, call, start, end, graph):
        """Its part in a collective. ends: as the annotation and as the group say them, of a transfer. graph: (when it
        was launched, correlation)."""
        run, stream = self.run, 20 + self.run.groups.index(group)
        prefix, kernels = LIBRARIES[run.library]
        note = {
            "kind": kind,
            "group": group.text(ends[1]),
            "seq": number,
            "bytes": size,
            "call": self.at(call),
            "start": self.at(start),
            "end": self.at(end),
        }
        if graph:
            shape = KERNEL.get(kind, "SendRecv")
            note.update(kind=OF_KERNEL[shape], group="", seq=None, bytes=None, call=self.at(graph[0]))
            self.add(
                "kernel",
                LIBRARIES["nccl"][1][0] % shape,
                stream,
                start,
                end,
                device=0,
                stream=stream,
                correlation=graph[1],
            )
        elif not kernels:  # the span of a library on the host is all there is: it names neither group nor number
            note.update(group=ends[1], seq=None, call=self.at(start))
            self.add("cpu_op", "c10d::" + word, 1, call, call + 400)
            shapes = {} if size is None else {"Input Dims": [[size // 4]], "Input type": ["float"]}
            self.add(
                "user_annotation", prefix + kind.replace("send_recv", word) + ends[0], stream, start, end, **shapes
            )
        else:
            args = {"Collective name": WORD.get(word, word), "dtype": "Float", **group.args()}
            args.update(
                {} if size is None else {"In msg nelems": size // 4}, **({} if number is None else {"Seq": number})
            )
            self.add("cpu_op", "c10d::" + WORD.get(word, word) + "_", 1, call, call + 400)
            self.add("cpu_op", "record_param_comms", 1, call + 50, call + 350, **args)
            self.add(
                "user_annotation",
                prefix + WORD.get(word, word).replace("allreduce", "all_reduce") + ends[0],
                1,
                call + 60,
                call + 340,
            )
            launch = self.fresh()
            self.add(
                "cuda_runtime",
                "hipExtLaunchKernel" if run.library == "rccl" else "cudaLaunchKernelExC",
                1,
                call + 100,
                call + 200,
                correlation=launch,
            )
            name = run.rnd.choice(kernels)
            self.add(
                "kernel",
                name % KERNEL.get(kind, "SendRecv") if "%s" in name else name,
                stream,
                start,
                end,
                device=0,
                stream=stream,
                correlation=launch,
            )
        if not self.over:
            self.collectives.append(note)

    def compute(self, begin, end):
        self.add("cpu_op", "aten::mm", 1, begin + 100, begin + 400)
        if LIBRARIES[self.run.library][1]:
            launch = self.fresh()
            self.add("cuda_runtime", "cudaLaunchKernel", 1, begin + 150, begin + 250, correlation=launch)
            self.add("kernel", "gemm", 7, begin + 300, end, device=0, stream=7, correlation=launch)

    def as_dict(self):
        return {
            "number": self.number,
            "base": self.base,
            "steps": self.steps,
            "events": self.events,
            "world": len(self.run.ranks),
            "collectives": sorted(self.collectives, key=lambda c: (c["call"], c["start"])),
        }


class Run:
    def __init__(self, seed, ranks=None):
        rnd = self.rnd = random.Random(seed)
        count = ranks or rnd.choice((2, 3, 4, 6, 8, 12, 16, 24, 32, 64))
        self.library = rnd.choice(("nccl", "nccl", *LIBRARIES))
        on_device = bool(LIBRARIES[self.library][1])
        self.numbered = rnd.choice((1, 1, 0.9, 0)) if on_device else 0  # share of the collectives that say their number
        self.hours, self.drifts, self.slow, self.graphs = (
            rnd.random() < 0.4,
            rnd.random() < 0.4,
            rnd.random() < 0.4,
            on_device and rnd.random() < 0.3,
        )
        self.ends_early = rnd.randrange(count) if rnd.random() < 0.25 else None
        self.begins_anew = rnd.random() < 0.25  # the groups' numbers do, half way
        self.groups = self.make_groups(count, rnd.choice(("name", "ranks", "what", "ranks")))
        self.ranks = [Rank(self, i) for i in range(count)]

    def make_groups(self, count, said):
        rnd, everybody = self.rnd, Group("0", "default_pg", list(range(count)), said)
        width = rnd.choice([d for d in (2, 3, 4, 8) if count % d == 0] or [count])
        alike = said == "ranks" and rnd.random() < 0.5  # groups of one name, distinguished by their members
        lists = [("mesh_tp", list(range(i, i + width))) for i in range(0, count, width)] + [
            ("undefined", list(range(j, count, width))) for j in range(width)
        ]
        groups = [
            Group("12"[what != "mesh_tp"] if alike else str(k), what, members, said)
            for k, (what, members) in enumerate(lists, 1)
        ]
        if count > 3:
            groups.append(Group("77", "undefined", sorted(rnd.sample(range(count), rnd.randint(2, count - 1))), said))
        return groups if rnd.random() < 0.3 else [everybody, *groups]

    def plan(self):
        """[(group, kind, places of sender and receiver)] of a step, in the order in which all ranks come to them."""
        rnd, out = self.rnd, []
        for _ in range(rnd.randint(1, 6)):
            group, way = rnd.choice(self.groups), rnd.random()
            if way < 0.55:
                kind = rnd.choice(
                    (
                        "all_reduce",
                        "all_reduce",
                        "all_gather",
                        "reduce_scatter",
                        "broadcast",
                        "all_to_all",
                        "reduce",
                        "barrier",
                    )
                )
                out += [(g, kind, None) for g in self.groups if g.what == group.what]
            elif way < 0.8:
                out.append((group, rnd.choice(("all_reduce", "all_gather", "broadcast", "barrier")), None))
            elif not self.graphs:  # a pipeline
                ways = list(zip(range(len(group.members)), range(1, len(group.members))))
                out += [(group, "send_recv", ends) for ends in ways] + [
                    (group, "send_recv", ends[::-1]) for ends in ways if rnd.random() < 0.5
                ]
        return out

    def meet(self, group, kind, ends, graphs):
        rnd, transfer = self.rnd, kind == "send_recv"
        who = [self.ranks[group.members[i]] for i in (ends or range(len(group.members)))]
        calls = [r.now + rnd.randint(500, 40_000) for r in who]
        starts = [
            max((graphs[r][0] if graphs else c) + rnd.randint(3_000, 40_000), r.busy.get(group, 0) + 200)
            for r, c in zip(who, calls)
        ]
        done = max(starts) + rnd.randint(500, 20_000)
        size = None if kind == "barrier" or rnd.random() < 0.07 else 4 * rnd.randint(1, 1 << 20)
        for i, (rank, call, start) in enumerate(zip(who, calls, starts)):
            rank.sent[group] = rank.sent.get(group, -1) + transfer
            number = rank.sent[group] if transfer else group.next
            word, said = kind, ("", "")
            if transfer:
                word, arrow = (("send", " %d->%d"), ("recv", " %d<-%d"))[i]
                said = (arrow % (ends[::-1] if i else ends), "%d->%d" % ends)
            end = (
                max(start + 300, done - rnd.randint(0, 400))
                if kind in ("broadcast", "send_recv")
                else done + rnd.randint(0, 400)
            )
            rank.take_part(
                group,
                kind,
                word,
                said,
                number if rnd.random() < self.numbered else None,
                size,
                call,
                start,
                end,
                graphs and graphs[rank],
            )
            rank.busy[group] = end
            rank.now = call + 500 if rnd.random() < 0.7 and LIBRARIES[self.library][1] else end + 100
        group.next += not transfer

    def step(self, number, of):
        rnd, begins = self.rnd, [r.now for r in self.ranks]
        graphs = None
        if number == of // 2 and self.begins_anew:
            for g in self.groups:
                g.next = 0
        if self.graphs and number:
            graphs = {r: (r.now + 5_000, r.fresh()) for r in self.ranks}
            for r in self.ranks:
                r.add(
                    "cuda_runtime", "cudaGraphLaunch", 1, graphs[r][0], graphs[r][0] + 3_000, correlation=graphs[r][1]
                )
                r.now += 9_000
        for group, kind, ends in self.plan():
            self.meet(group, kind, ends, graphs)
        for rank, begin in zip(self.ranks, begins):
            end = max([rank.now, *rank.busy.values()]) + rnd.randint(2_000, 9_000)
            rank.compute(begin, end - 1_000)
            rank.add("user_annotation", "ProfilerStep#%d" % number, 1, begin, end)
            if not rank.over:
                rank.steps.append((number, rank.at(begin), rank.at(end)))
            rank.now = end + (200_000_000 if self.slow else 60_000)
            rank.over |= rank.number == self.ends_early and number >= of // 2


def make(seed, ranks=None):
    run = Run(seed, ranks)
    steps = run.rnd.randint(1, 6)
    for number in range(steps):
        run.step(number, steps)
    return [r.as_dict() for r in run.ranks]


def us(ns):
    return "%s%d.%03d" % ("-" if ns < 0 else "", *divmod(abs(ns), 1000))


def write(folder, run):
    for rank in run:
        events = [
            '{"ph": "X", "cat": "%s", "name": %s, "pid": %d, "tid": %d, "ts": %s, "dur": %s, "args": %s}'
            % (cat, json.dumps(name), pid, tid, us(start), us(end - start), json.dumps(args))
            for cat, name, pid, tid, start, end, args in rank["events"]
        ]
        head = '{"baseTimeNanoseconds": %d, "distributedInfo": {"rank": %d, "world_size": %d}, "traceEvents": [\n' % (
            rank["base"],
            rank["number"],
            rank["world"],
        )
        (pathlib.Path(folder) / ("rank%03d.json" % rank["number"])).write_text(head + ",\n".join(events) + "]}")
    return folder
