"""Random traces of what traces.py never makes, for the same slow references: several devices whose streams have the
same numbers, collectives on two streams at once, graphs (one call, many kernels everywhere), device work without a
correlation, steps of several threads that overlap, operators that overlap in part or are empty or begin and end with
what is around them, annotations of one name in each other, and times at the ends of what fits."""

import random

import traces
from traces import Event

STREAMS = (0, 7, 20, 23)
BASES = (
    0,
    -(10**15),
    -999,
    2**53 * 1000,
    1_690_000_000_123_456_000,
)  # ns; 2**53 us is where doubles lose whole microseconds


class Builder:
    def __init__(self, rnd, size, grain, base, devices):
        self.rnd, self.grain, self.base, self.left = rnd, grain, base, size
        self.devices, self.events, self.number = devices, [], 100

    def add(self, name, pid, tid, cat, start, dur, args=None):
        self.left -= 1
        self.events.append(Event("X", name, pid, tid, cat, start, dur, args))

    def fresh(self):
        self.number += self.rnd.randint(1, 3)
        return self.number

    def at(self, low, high):
        """On the grain, and often just at an end."""
        points = (high - low) // self.grain
        return low + self.rnd.choice((0, points, *(self.rnd.randint(0, points) for _ in range(4)))) * self.grain

    # ---- host ----

    def inside(self, pid, tid, start, end, depth):
        """Siblings each begin where they please: some overlap in part, some are empty, some are as long as what is
        around them."""
        for _ in range(self.rnd.randint(0, 3 if depth else 6)):
            if self.left > 0:
                a, b = sorted((self.at(start, end), self.at(start, end)))
                self.slice(pid, tid, a, b, depth)

    def slice(self, pid, tid, a, b, depth):
        kind = self.rnd.choices(("op", "annotation", "frame", "call"), (6, 3, 2, 5))[0]
        if kind == "call":
            return self.call(pid, tid, a, b)
        if kind == "op":
            self.add(
                self.rnd.choice(("aten::mm", "aten::mm", "aten::add_", "aten::relu")),
                pid,
                tid,
                "cpu_op",
                a,
                b - a,
                {"External id": self.fresh()},
            )
        elif kind == "annotation":
            self.add(
                self.rnd.choice(("forward", "Optimizer.step#SGD.step")), pid, tid, "user_annotation", a, b - a, None
            )
        else:
            self.add(
                self.rnd.choice(("train.py(1): f0", "train.py(2): f1")),
                pid,
                tid,
                "python_function",
                a,
                b - a,
                {"Python id": self.fresh(), "Python parent id": None},
            )
        if depth < 4:
            self.inside(pid, tid, a, b, depth + 1)
        return None

    def call(self, pid, tid, a, b):
        number = self.fresh()
        name = self.rnd.choice(
            ("cudaLaunchKernel",) * 3
            + ("cuLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cudaStreamSynchronize")
        )
        self.add(
            name,
            pid,
            tid,
            "cuda_driver" if name.startswith("cuL") else "cuda_runtime",
            a,
            b - a,
            {"correlation": number},
        )
        for _ in range(
            {"cudaGraphLaunch": self.rnd.randint(2, 6), "cudaStreamSynchronize": 0}.get(
                name, self.rnd.choice((0, 1, 1))
            )
        ):
            self.work(self.at(a - 5 * self.grain, b + 60 * self.grain), number)

    # ---- device ----

    def work(self, start, number, name=None, place=None):
        """What begins before its call, too: clocks disagree."""
        device, stream = place or (self.rnd.choice(self.devices), self.rnd.choice(STREAMS))
        args = {"device": device, "stream": stream} | ({} if number is None else {"correlation": number})
        cat = "kernel" if name else self.rnd.choices(("kernel", "gpu_memcpy", "gpu_memset"), (6, 2, 1))[0]
        dur = self.rnd.choice((0, self.rnd.randint(0, 50), 50, 300)) * self.grain
        if cat == "kernel":
            name = name or self.rnd.choice(traces.KERNELS)[0]
            blocks = self.rnd.choice((0.25, 1, 12))
            args.update(
                {
                    "grid": [2, 1, 1],
                    "block": [32, 1, 1],
                    "blocks per SM": blocks,
                    "warps per SM": blocks,
                    "est. achieved occupancy %": self.rnd.choice((0, 25, 60)),
                }
            )
        else:
            name = (
                self.rnd.choice(("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"))
                if cat == "gpu_memcpy"
                else "Memset (Device)"
            )
            args.update({"bytes": 4096, "memory bandwidth (GB/s)": self.rnd.randint(0, 8) / 4})
        self.add(name, device, stream, cat, start, dur, args)

    def collectives(self, span):
        """Two at once on two streams of one device, one partly over the other."""
        for _ in range(self.rnd.randint(0, 3)):
            device, start = self.rnd.choice(self.devices), self.at(self.base, self.base + span)
            for stream in self.rnd.sample(STREAMS, 2):
                self.work(start, self.fresh(), traces.KERNELS[self.rnd.choice((2, 4))][0], (device, stream))
                start += self.rnd.randint(0, 40) * self.grain

    def strangers(self, span):
        for _ in range(self.rnd.randint(0, 4)):
            self.work(self.at(self.base, self.base + span), None)

    # ---- memory ----

    def memory(self, pid, tids, span):
        """On every thread and of every device; what one thread took another frees."""
        live, edges = [], [t for e in self.events if e.cat == "cpu_op" for t in (e.ts, e.end)]
        times = {
            self.rnd.choice(edges) if edges and self.rnd.random() < 0.5 else self.at(self.base, self.base + span)
            for _ in range(self.rnd.randint(0, 14))
        }
        for k, ts in enumerate(sorted(times)):
            if live and self.rnd.random() < 0.5:
                kind, device, address, size = live.pop(self.rnd.randrange(len(live)))
                size = -size
            else:
                kind, device = self.rnd.choice(((0, -1), *((1, d) for d in self.devices)))
                address, size = 4096 * (k + 1), self.rnd.choice((512, 1024, 4096))
                live.append((kind, device, address, size))
            args = {"Device Type": kind, "Device Id": device, "Addr": address, "Bytes": size}
            self.events.append(
                Event("i", "[memory]", pid, self.rnd.choice(tids), "cpu_instant_event", ts, None, args, {"s": "t"})
            )

    # ---- steps ----

    def steps(self, pid, tids, count, span):
        """Each thread its own, of the same numbers or others, over each other."""
        for tid in tids:
            shift = self.rnd.randint(0, span // (4 * self.grain)) * self.grain
            bounds = sorted(self.at(self.base, self.base + span) for _ in range(count + 1))
            for k, (a, b) in enumerate(zip(bounds, bounds[1:])):
                self.add("ProfilerStep#%d" % (k + 5), pid, tid, "user_annotation", a + shift, b - a)


def build(seed, size=70, grain=1000, steps=2, threads=2, devices=2, memory=False):
    """One rank, as traces.build gives them in a list."""
    rnd = random.Random(seed)
    base, span, pid = rnd.choice(BASES) // grain * grain, 200 * grain, rnd.choice((4711, "worker"))
    b = Builder(rnd, size, grain, base, list(range(devices)))
    tids = [4711 + k for k in range(threads)]
    b.steps(pid, tids[: rnd.choice((1, threads))] if steps else (), steps, span)
    for tid in tids:
        b.inside(pid, tid, base, base + span, 0)
    b.collectives(span)
    b.strangers(span)
    if memory:
        b.memory(pid, tids, span)
    b.events.append(Event("i", "recording began", pid, tids[0], None, base, None, None, {"s": "g"}))
    rnd.shuffle(b.events)
    for i, e in enumerate(b.events):
        e.i = i
    listed = [{"id": k, "name": "NVIDIA Test", "totalGlobalMem": 1 << 34, "numSms": 80} for k in range(devices)]
    return [traces.Rank(None, 1, 0, listed, b.events)]
