"""Random valid traces with a known content, and the many legal ways to write one as JSON.

build(seed, …) makes the content: a list of ranks, each a list of Event in file order, times in whole nanoseconds.
spell(rank, …) writes one rank; how it is written (order of keys, blanks, escapes, number spellings, container, packing)
is drawn from a Random of its own, so that the same content can be written twice in different ways.
"""

import copy
import dataclasses
import gzip
import json
import random
import shutil
import subprocess

STRANGE_NAMES = [
    "aten::mm",
    "aten::add_",
    'a"b\\c/d',
    "torch::autograd::AccumulateGrad",
    "naïve – ätsch",
    "名前\U0001f600",
    "tab\there",
    "<b>&amp;",
    "%s%n",
    " ",
]
KERNELS = [
    ("gemm_kernel<float, 8>", "COMPUTATION"),
    ("void at::native::vectorized_elementwise_kernel<4>(int)", "COMPUTATION"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "COMMUNICATION"),
    ("triton_poi_fused_add_0", "COMPUTATION"),
    ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "COMMUNICATION"),
]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclasses.dataclass
class Event:
    ph: str
    name: str
    pid: object
    tid: object
    cat: str = None
    ts: int = None  # ns; None: the event has no ts
    dur: int = None
    args: dict = None
    more: dict = dataclasses.field(default_factory=dict)
    i: int = -1  # position in the file

    @property
    def end(self):
        return self.ts + self.dur


@dataclasses.dataclass
class Rank:
    number: int  # None: the file does not say
    world: int
    base_ns: int
    devices: list
    events: list


# ---- content -----------------------------------------------------------------------------------------------


class Builder:
    """Grows one rank. All times are multiples of grain, within span grains: a small span makes ties and touching slices
    common."""

    def __init__(self, rnd, size, grain, span, base):
        self.rnd, self.size, self.grain, self.base = rnd, size, grain, base
        self.stretch = span // 1000
        self.events, self.next_id, self.launches = [], 1, []

    def fresh(self):
        self.next_id += self.rnd.randint(1, 3)
        return self.next_id

    def add(self, *a, **k):
        e = Event(*a, **k)
        self.events.append(e)
        return e

    def cut(self, start, end, parts):
        """Disjoint sub-intervals of [start, end], in order, on the grain."""
        points = sorted(self.rnd.randint(start // self.grain, end // self.grain) * self.grain for _ in range(2 * parts))
        return [(a, b) for a, b in zip(points[::2], points[1::2]) if start <= a and b <= end]

    def forest(self, pid, tid, start, end, depth, python):
        for a, b in self.cut(start, end, self.rnd.randint(0, 3 if depth else 5)):
            if len(self.events) >= self.size:
                return
            self.node(pid, tid, a, b, depth, python)

    def node(self, pid, tid, a, b, depth, python):
        kind = self.rnd.choices(("op", "annotation", "frame", "call"), (6, 1, 3 if python else 0, 4 if depth else 1))[0]
        if kind == "call":
            return self.call(pid, tid, a, b)
        if kind == "op":
            args = {"External id": self.fresh()}
            if self.rnd.random() < 0.5:
                args["Input Dims"] = [[self.rnd.randint(1, 9), 4], []]
            if self.rnd.random() < 0.3:
                args["Sequence number"] = self.rnd.randint(0, 99)
            self.add("X", self.rnd.choice(STRANGE_NAMES), pid, tid, "cpu_op", a, b - a, args)
        elif kind == "annotation":
            self.add(
                "X",
                self.rnd.choice(
                    ("forward", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Single.__next__", "my range")
                ),
                pid,
                tid,
                "user_annotation",
                a,
                b - a,
                {"External id": self.fresh()} if self.rnd.random() < 0.5 else None,
            )
        else:
            args = {"Python id": self.fresh(), "Python parent id": None}
            module = self.rnd.random() < 0.3
            if module:
                args["Python module id"] = self.rnd.randint(0, 2)
            name = (
                "nn.Module: Linear_%d" % self.rnd.randint(0, 1)
                if module
                else "train.py(%d): f%d" % (self.rnd.randint(1, 3), self.rnd.randint(0, 2))
            )
            self.add("X", name, pid, tid, "python_function", a, b - a, args)
        if depth < 5:
            self.forest(pid, tid, a, b, depth + 1, python)
        return None

    def call(self, pid, tid, a, b):
        corr = self.fresh()
        args = {"correlation": corr, "cbid": 211}
        owners = [e for e in self.events if e.cat == "cpu_op" and e.pid == pid]
        if owners and self.rnd.random() < 0.6:
            args["External id"] = self.rnd.choice(owners).args["External id"]
        name = self.rnd.choice(("cudaLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernel", "cudaStreamSynchronize"))
        cat = "cuda_driver" if name.startswith("cuL") else "cuda_runtime"
        self.add("X", name, pid, tid, cat, a, b - a, args)
        self.launches.append((a, corr))

    def device_work(self, device, streams):
        for start, corr in self.launches:
            for _ in range(self.rnd.choice((0, 1, 1, 1, 2))):
                self.device_event(
                    device, self.rnd.choice(streams), start + self.rnd.randint(0, 40 * self.stretch) * self.grain, corr
                )
        for _ in range(self.rnd.randint(0, 2)):  # launched before the recording began
            self.device_event(
                device,
                self.rnd.choice(streams),
                self.base + self.rnd.randint(0, 100 * self.stretch) * self.grain,
                self.fresh(),
            )

    def device_event(self, device, stream, start, corr):
        dur = self.rnd.randint(0, 30 * self.stretch) * self.grain
        args = {"device": device, "stream": stream, "correlation": corr, "context": 1}
        cat = self.rnd.choices(DEVICE, (5, 1, 1))[0]
        if cat == "kernel":
            name = self.rnd.choice(KERNELS)[0]
            args.update({"grid": [self.rnd.randint(1, 9), 1, 1], "block": [128, 1, 1], "registers per thread": 32})
            if self.rnd.random() < 0.7:
                args["blocks per SM"] = self.rnd.choice((0.25, 1, 1.5, 12))
                args["est. achieved occupancy %"] = self.rnd.choice((0, 25, 60))
        else:
            name = "Memcpy HtoD (Pinned -> Device)" if cat == "gpu_memcpy" else "Memset (Device)"
            args["bytes"] = 4096
            args["memory bandwidth (GB/s)"] = (start // self.grain % 7) / 4
        self.add("X", name, device, stream, cat, start, dur, args)

    def memory(self, pid, tid):
        live, total = [], 0
        pace = self.rnd.choice((7, 80 * self.stretch)) * self.grain  # at the beginning, or all over
        for k in range(self.rnd.randint(0, 12)):
            kind, ident = self.rnd.choice(((0, -1), (1, 0), (1, 1)))
            if live and self.rnd.random() < 0.5:
                kind, ident, addr, size = live.pop(self.rnd.randrange(len(live)))
                size = -size
            else:
                addr, size = 4096 * (k + 1), self.rnd.choice((512, 1024, 4096))
                if self.rnd.random() < 0.1:
                    size = -size  # freed here, allocated before the recording
                else:
                    live.append((kind, ident, addr, size))
            total = max(0, total + size)
            args = {"Device Type": kind, "Device Id": ident, "Addr": addr, "Bytes": size}
            if self.rnd.random() < 0.8:
                args.update({"Total Allocated": total, "Total Reserved": total + 4096})
            self.add("i", "[memory]", pid, tid, "cpu_instant_event", self.base + k * pace, None, args, {"s": "t"})

    def extras(self, pid, tid, first):
        for e in (
            Event("M", "process_name", pid, 0, None, self.base, None, {"name": "python"}),
            Event("M", "thread_name", pid, tid, None, self.base, None, {"name": "thread " + str(tid)}),
        ):
            self.events.insert(0 if first else len(self.events), e)
        self.add(
            "i", "recording began", pid, tid, None, self.base, None, None, {"s": "g"}
        )  # so that no trace is only metadata
        if self.launches and self.rnd.random() < 0.7:
            start, corr = self.rnd.choice(self.launches)
            self.add("s", "ac2g", pid, tid, "ac2g", start, None, None, {"id": corr})
            self.add("f", "ac2g", 0, 7, "ac2g", start + self.grain, None, None, {"id": corr, "bp": "e"})
        if self.rnd.random() < 0.5:
            self.add("C", "queue length", pid, 0, None, self.base, None, {"depth": self.rnd.randint(0, 9)})


def build_rank(rnd, number, world, size, grain, span, steps, python, gpu, with_memory):
    base = rnd.choice((0, 1_000_000, 1_690_000_000_123_456_000, 4_203_669_603_188_512)) // grain * grain
    b = Builder(rnd, size, grain, span, base)
    span *= grain
    pid = rnd.choice((4711, -3, "worker", 2**53 + 1))
    tids = rnd.sample([4711, -247463936, 140244512839424, "2", "Thread<1>"], rnd.randint(1, 3))
    bounds = [base + span * k // max(steps, 1) for k in range(max(steps, 1) + 1)] if steps else []
    for k in range(steps):
        a, z = bounds[k] // grain * grain, bounds[k + 1] // grain * grain
        b.add("X", "ProfilerStep#%d" % (k + 3), pid, tids[0], "user_annotation", a, z - a, {"External id": b.fresh()})
    for tid in tids:
        if steps and tid == tids[0]:
            for a, z in zip(bounds, bounds[1:]):
                b.forest(pid, tid, a // grain * grain, z // grain * grain, 1, python)
        else:
            b.forest(pid, tid, base, base + span, 0, python)
    if gpu:
        b.device_work(rnd.choice((0, 1)), rnd.sample((0, 7, 20, 23), rnd.randint(1, 2)))
    if with_memory:
        b.memory(pid, tids[0])
    b.extras(pid, tids[0], rnd.random() < 0.5)
    rnd.shuffle(b.events)
    for i, e in enumerate(b.events):
        e.i = i
    devices = [{"id": 0, "name": "NVIDIA Test", "totalGlobalMem": 1 << 34, "numSms": 80}] if gpu else []
    return Rank(number, world, rnd.choice((0, 1_700_000_000_000_000_000)), devices, b.events)


def build(seed, ranks=1, size=60, grain=1000, span=1000, steps=2, python=True, gpu=True, memory=True):
    rnd = random.Random(seed)
    given = ranks > 1 or rnd.random() < 0.5
    return [
        build_rank(rnd, k if given else None, ranks, size, grain, span, steps, python, gpu, memory)
        for k in range(ranks)
    ]


# ---- spelling ----------------------------------------------------------------------------------------------


def slowed(ranks):
    """A copy with all times doubled."""
    ranks = copy.deepcopy(ranks)
    for e in (e for rank in ranks for e in rank.events):
        e.ts, e.dur = (None if v is None else 2 * v for v in (e.ts, e.dur))
    return ranks


def shuffled(ranks, seed):
    """A copy with the same events in another order."""
    ranks = copy.deepcopy(ranks)
    for rank in ranks:
        random.Random(seed).shuffle(rank.events)
        for i, e in enumerate(rank.events):
            e.i = i
    return ranks


class Speller:
    """Writes JSON values; plain=True gives the one way json.dumps would. calm: no escapes but those that must be."""

    def __init__(self, rnd, plain=False, calm=False):
        self.rnd, self.plain, self.calm = rnd, plain, calm

    def blank(self):
        return "" if self.plain else self.rnd.choice(("", "", "", " ", "\n  ", "\t", "\r\n"))

    def text(self, s):
        if self.plain or self.calm:
            return json.dumps(s, ensure_ascii=False)
        out = []
        for c in s:
            if c in '"\\':
                out.append("\\" + c)
            elif c == "/" and self.rnd.random() < 0.3:
                out.append("\\/")
            elif ord(c) < 32:
                out.append(json.dumps(c)[1:-1] if self.rnd.random() < 0.5 else "\\u%04x" % ord(c))
            elif self.rnd.random() < 0.05:
                out.append(json.dumps(c, ensure_ascii=True)[1:-1] if ord(c) > 126 else "\\u%04X" % ord(c))
            else:
                out.append(c)
        return '"%s"' % "".join(out)

    def time(self, ns):
        """Microseconds; exact, in one of the spellings JSON writers use."""
        sign, digits = "-" if ns < 0 else "", abs(ns)
        whole, rest = divmod(digits, 1000)
        fixed = "%s%d.%03d" % (sign, whole, rest)
        short = fixed.rstrip("0").rstrip(".")
        if self.plain:
            return fixed
        tens = len(str(digits)) - 1
        mantissa = str(digits)[0] + ("." + str(digits)[1:] if tens else "")
        spellings = [
            fixed,
            short,
            short,
            "%s%de-3" % (sign, digits),
            "%s%de%s%d" % (sign, digits * 10, "-", 4),
            "%s%s%s%d" % (sign, mantissa, self.rnd.choice(("e", "E", "e+", "E+")) if tens >= 3 else "e", tens - 3),
        ]
        spelled = self.rnd.choice(spellings)
        return '"%s"' % spelled if self.rnd.random() < 0.1 else spelled

    def object(self, pairs, shuffle=True):
        pairs = list(pairs)
        if shuffle and not self.plain:
            self.rnd.shuffle(pairs)
        body = ",".join(
            "%s%s%s:%s%s%s" % (self.blank(), self.text(k), self.blank(), self.blank(), v, self.blank())
            for k, v in pairs
        )
        return "{%s}" % (body or self.blank())

    def array(self, items):
        return "[%s]" % (",".join(self.blank() + i + self.blank() for i in items) or self.blank())

    def value(self, v):
        if isinstance(v, dict):
            return self.object((k, self.value(x)) for k, x in v.items())
        if isinstance(v, list):
            return self.array(self.value(x) for x in v)
        if isinstance(v, str):
            return self.text(v)
        return json.dumps(v)

    def event(self, e, shift_ns=0):
        pairs = [
            ("ph", self.text(e.ph)),
            ("name", self.text(e.name)),
            ("pid", self.value(e.pid)),
            ("tid", self.value(e.tid)),
        ]
        if e.cat is not None:
            pairs.append(("cat", self.text(e.cat)))
        if e.ts is not None:
            pairs.append(("ts", self.time(e.ts + shift_ns)))
        if e.dur is not None:
            pairs.append(("dur", self.time(e.dur)))
        if e.args is not None:
            pairs.append(("args", self.value(e.args)))
        elif not self.plain and self.rnd.random() < 0.3:
            pairs.append(("args", "{}"))
        return self.object(pairs + [(k, self.value(v)) for k, v in e.more.items()])


def document(rank, speller, shift_ns=0):
    events = speller.array(speller.event(e, shift_ns) for e in rank.events)
    rnd, calm = speller.rnd, Speller(speller.rnd, speller.plain, calm=True)
    if rank.number is None and not rank.devices and not rank.base_ns and not speller.plain and rnd.random() < 0.5:
        return speller.blank() + events + speller.blank()
    pairs = [("schemaVersion", "1"), ("displayTimeUnit", '"ms"')]
    if rank.number is not None:
        pairs.append(
            ("distributedInfo", calm.value({"backend": "nccl", "rank": rank.number, "world_size": rank.world}))
        )
    if rank.base_ns:
        pairs.append(("baseTimeNanoseconds", str(rank.base_ns)))
    if rank.devices:
        pairs.append(("deviceProperties", calm.value(rank.devices)))
    if not speller.plain and rnd.random() < 0.3:
        pairs.append(("note", speller.text('"traceEvents": [{"ph": "X"}] ]}')))
        pairs.append(("nested", '{"traceEvents":[1,{"a":[]}],"x":null}'))
    pairs.append(("traceEvents", events))
    return speller.blank() + speller.object(pairs) + speller.blank()


def pack(text, packing):
    data = text.encode("utf-8")
    if packing == "gz":
        return gzip.compress(data, 1)
    if packing == "zst":
        return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def packings():
    return ("", "gz", "zst") if shutil.which("zstd") else ("", "gz")


def write(ranks, folder, seed, plain=False, shift_ns=0):
    """Writes a trace below folder (which must be empty); returns the path to open: the file, or the folder of
    several."""
    rnd = random.Random(seed)
    paths = []
    for k, rank in enumerate(ranks):
        packing = "" if plain else rnd.choice(packings())
        path = folder / ("rank-%d.json%s" % (k, "." + packing if packing else ""))
        path.write_bytes(pack(document(rank, Speller(rnd, plain), shift_ns), packing))
        paths.append(path)
    return paths[0] if len(paths) == 1 else folder
