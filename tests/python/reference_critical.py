"""The critical path by its definition in docs/metrics.md, slowly: a random run, its graph built by looking at
everything each time, and the longest path by relaxing every edge until nothing changes. No two starts or ends of it
fall together, so nothing depends on how ties are resolved."""

import json
import random

LOCKS = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WAITS = ("Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event")
LIMIT = 1_500_000


class Run:
    """Events as dicts with whole nanoseconds; threads nest, streams run one after the other, waits are recorded or
    not."""

    def __init__(self, seed, size, span, threads=2, devices=1, recorded=True):
        self.rnd, self.span, self.recorded = random.Random(seed), span, recorded
        self.used, self.events, self.next_id = set(), [], 100
        self.free = {}  # (device, stream) → when it is done
        self.records = []  # cudaEventRecord: (correlation, device, stream)
        self.streams = [(d, s) for d in range(devices) for s in (7, 20)]
        for tid in range(1, threads + 1):
            self.fill(tid, 1000, 1000 + span, size // threads, 0)

    def at(self, low, high):
        """A time nothing else has."""
        while True:
            t = self.rnd.randint(low, max(low, high))
            if t not in self.used:
                self.used.add(t)
                return t
            high += 10

    def add(self, cat, name, start, end, pid, tid, **args):
        self.events.append({"cat": cat, "name": name, "start": start, "end": end, "pid": pid, "tid": tid, "args": args})

    def fill(self, tid, low, high, left, depth):
        """Calls and operators one after the other between two times."""
        here = low
        while left > 0 and high - here > 400:
            start = self.at(here + 1, here + (high - here) // 3)
            end = self.at(start + 100, start + 100 + (high - start) // 2)
            if end >= high:
                return
            left -= 1
            if depth < 3 and self.rnd.random() < 0.5:
                inside = self.rnd.randint(1, 4)
                name = LOADER if self.rnd.random() < 0.1 else "aten::%s" % self.rnd.choice("abc")
                self.add("user_annotation" if name == LOADER else "cpu_op", name, start, end, 1, tid)
                self.fill(tid, start, end, inside, depth + 1)
                left -= inside
            else:
                self.call(tid, start, end)
            here = end

    def call(self, tid, start, end):
        name = self.rnd.choice(
            ["cudaLaunchKernel"] * 4
            + [
                "cudaMemcpyAsync",
                "cudaGraphLaunch",
                "cudaHostAlloc",
                "cudaMalloc",
                "cudaStreamSynchronize",
                "cudaDeviceSynchronize",
                "cudaEventRecord",
                "cudaEventSynchronize",
                "cudaStreamWaitEvent",
            ]
        )
        self.next_id += 1
        number, (device, stream) = self.next_id, self.rnd.choice(self.streams)
        self.add("cuda_runtime", name, start, end, 1, tid, correlation=number)
        if name in ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync"):
            for _ in range(self.rnd.randint(2, 3) if name == "cudaGraphLaunch" else 1):
                self.work(name, start, number, device, stream)
        elif name == "cudaEventRecord":
            self.records.append((number, device, stream))
        elif self.recorded and self.rnd.random() < 0.8:
            self.wait(name, start, end, number, device, stream)

    def work(self, call, start, number, device, stream):
        begin = self.at(
            max(start, self.free.get((device, stream), 0)) + 1, start + self.span // self.rnd.choice((2, 10, 40))
        )
        end = self.at(begin + 1, begin + self.span // 20)
        self.free[device, stream] = end
        copy = call == "cudaMemcpyAsync"
        name = (
            "Memcpy HtoD (Pageable -> Device)" if copy else self.rnd.choice(["gemm", "ncclDevKernel_AllReduce", "add"])
        )
        self.add(
            "gpu_memcpy" if copy else "kernel",
            name,
            begin,
            end,
            device,
            stream,
            device=device,
            stream=stream,
            correlation=number,
        )

    def wait(self, call, start, end, number, device, stream):
        args = {"device": device, "stream": stream, "correlation": number}
        kind = {
            "cudaStreamSynchronize": "Stream Sync",
            "cudaDeviceSynchronize": "Context Sync",
            "cudaEventSynchronize": "Event Sync",
            "cudaStreamWaitEvent": "Stream Wait Event",
        }.get(call)
        if kind is None:
            return
        if kind in WAITS[2:]:
            if not self.records:
                return
            record, device, args["wait_on_stream"] = self.rnd.choice(self.records)
            args["wait_on_cuda_event_record_corr_id"], args["device"] = record, device
        begin = self.at(start + 1, end - 10)
        self.add("cuda_sync", kind, begin, self.at(begin + 1, end - 1), device, stream, **args)


def document(events, shift=0, scale=1, stream=lambda s: s, order=None):
    out = []
    for e in events if order is None else [events[i] for i in order]:
        args = {k: stream(v) if k in ("stream", "wait_on_stream") else v for k, v in e["args"].items()}
        tid = stream(e["tid"]) if "stream" in args else e["tid"]
        start, dur = e["start"] * scale + shift, (e["end"] - e["start"]) * scale
        out.append(
            {
                "ph": "X",
                "cat": e["cat"],
                "name": e["name"],
                "pid": e["pid"],
                "tid": tid,
                "ts": us(start),
                "dur": us(dur),
                "args": args,
            }
        )
    return json.dumps({"traceEvents": out}, ensure_ascii=False).replace('"§', "").replace('§"', "")


def us(ns):
    return "§%d.%03d§" % divmod(ns, 1000)


# ---- the graph ---------------------------------------------------------------------------------------------


class Graph:
    """Nodes are (event, is_end). edges: (from, to) → [kind, is_free, event its time is booked on]."""

    def __init__(self, events, launch_edges=True):
        self.events, self.edges, self.launch_edges = events, {}, launch_edges
        everything = range(len(events))
        self.host = [
            i for i in everything if events[i]["cat"] in ("cpu_op", "cuda_runtime") or events[i]["name"] == LOADER
        ]
        self.work = [i for i in everything if events[i]["cat"] in ("kernel", "gpu_memcpy")]
        self.waits = [i for i in everything if events[i]["cat"] == "cuda_sync"]
        self.call_of = {events[i]["args"]["correlation"]: i for i in self.host if "correlation" in events[i]["args"]}
        self.sources = self.find_sources()
        self.add_locks()
        for thread in sorted({events[i]["tid"] for i in self.host}):
            self.add_thread([i for i in self.host if events[i]["tid"] == thread])
        self.add_device()

    def time(self, node):
        return self.events[node[0]]["end" if node[1] else "start"]

    def add(self, start, end, kind, free=False, event=None):
        known = self.edges.get((start, end))
        self.edges[start, end] = [kind, free, known[2] if known and event is None else event]

    def weight(self, pair):
        kind, free, _ = self.edges[pair]
        return (
            0 if free or kind in ("dependency", "sync_dependency") else max(0, self.time(pair[1]) - self.time(pair[0]))
        )

    def place(self, i):
        return self.events[i]["args"]["device"], self.events[i]["args"]["stream"]

    def launch(self, i):
        return self.call_of[self.events[i]["args"]["correlation"]]

    # what blocking calls wait for where no wait is recorded: {call: work}; calls that wait at all are in self.blocking
    def find_sources(self):
        recorded = {self.launch(w) for w in self.waits}
        found, self.blocking = {}, set()
        for i in self.host:
            e = self.events[i]
            if e["cat"] != "cuda_runtime" or not ("ynchronize" in e["name"] or "Memcpy" in e["name"]):
                continue
            if i in recorded:
                self.blocking.add(i)
                continue
            if "Memcpy" in e["name"]:
                ended = [k for k in self.work if self.launch(k) == i and self.events[k]["end"] <= e["end"]]
            else:
                ended = [k for k in self.work if e["start"] < self.events[k]["end"] <= e["end"]]
            if ended:
                found[i] = max(ended, key=lambda k: self.events[k]["end"])
                self.blocking.add(i)
        return found

    def add_locks(self):
        calls = [i for i in self.host if self.events[i]["name"] in LOCKS]
        points = sorted(((i, end) for i in calls for end in (False, True)), key=self.time)
        for k, (i, is_end) in enumerate(points):
            if not is_end:
                continue
            # every start since the last end, or since the beginning
            back = k - 1
            while back >= 0 and not points[back][1]:
                other = points[back][0]
                if other == i:
                    self.add((i, False), (i, True), "operator", i in self.blocking, i)
                elif self.events[other]["tid"] != self.events[i]["tid"]:
                    self.add((other, False), (i, True), "dependency")
                back -= 1
            if k and points[k - 1][1] and self.events[points[k - 1][0]]["tid"] != self.events[i]["tid"]:
                self.add(points[k - 1], (i, True), "operator", i in self.blocking, i)

    def add_thread(self, rows):
        points = sorted(((i, end) for i in rows for end in (False, True)), key=self.time)
        for before, after in zip(points, points[1:]):
            if before[0] == after[0] and self.events[after[0]]["name"] in LOCKS:
                continue
            t = self.time(before)
            around = [i for i in rows if self.events[i]["start"] <= t < self.events[i]["end"]]  # open behind `before`
            if not around:
                self.add(before, after, "dependency")
                continue
            inner = max(around, key=lambda i: self.events[i]["start"])
            event = before[0] if not before[1] else after[0] if after[1] else inner
            self.add(before, after, "operator", after[1] and after[0] in self.blocking, event)

    def launched(self, place, tid=None, until=None, since=None):
        """Work launched last on a stream until a time, or first since one by a thread."""
        on = sorted(
            (k for k in self.work if self.place(k) == place),
            key=lambda k: (self.events[self.launch(k)]["start"], self.events[k]["start"]),
        )
        start = lambda k: self.events[self.launch(k)]["start"]
        if until is not None:
            return next((k for k in reversed(on) if start(k) <= until), None)
        return next((k for k in on if start(k) > since and self.events[self.launch(k)]["tid"] == tid), None)

    def add_device(self):
        last, awaited = {}, {}
        for i in sorted(self.work + self.waits, key=lambda i: self.events[i]["end" if i in self.waits else "start"]):
            (self.add_wait if i in self.waits else self.add_work)(i, last, awaited)
        for call, work in self.sources.items():
            self.add((work, True), (call, True), "sync_dependency")

    def add_wait(self, i, last, awaited):
        e, call = self.events[i], self.launch(i)
        if e["name"] == "Stream Sync":
            found = [last.get(self.place(i))]
        elif e["name"] == "Context Sync":
            found = list(last.values())
        else:
            record = self.call_of[e["args"]["wait_on_cuda_event_record_corr_id"]]
            device = e["pid"]  # a stream is looked for on the device that waits
            source = self.launched((device, e["args"]["wait_on_stream"]), until=self.events[record]["start"])
            if e["name"] == "Stream Wait Event":
                work = self.launched((device, e["tid"]), tid=self.events[call]["tid"], since=self.events[call]["start"])
                if source is not None and work is not None:
                    awaited[work] = source
                return
            found = [source]
        for work in found:
            if work is not None:
                self.add((work, True), (call, True), "sync_dependency")

    def add_work(self, i, last, awaited):
        place, call, before = self.place(i), self.launch(i), last.get(self.place(i))
        self.add((i, False), (i, True), "operator", False, i)
        source = awaited.get(i)
        if source is not None and self.place(source) != place:
            self.add((source, True), (i, False), "sync_dependency")
        else:
            source = None
        ends = self.events[source]["end"] if source is not None else None
        start = self.events[call]["start"]
        idle = (before is None or self.events[before]["end"] < start) and (ends is None or ends < start)
        if idle:
            self.add((call, False), (i, False), "launch_delay")
        elif (
            before is not None
            and self.events[i]["start"] - self.events[before]["end"] < LIMIT
            and (ends is None or ends < self.events[before]["end"])
        ):
            self.add((before, True), (i, False), "kernel_delay", False, before)
        if self.launch_edges and not idle:
            self.add((call, False), (i, False), "launch_delay", True)
        last[place] = i

    # ---- the path ------------------------------------------------------------------------------------------

    def relax(self):
        """Longest distance to every node; None when there is a circle."""
        distance = {n: 0 for pair in self.edges for n in pair}
        reached = dict.fromkeys(distance, 0)  # edges on the way, to tell a circle of weight 0
        for _ in range(len(distance) + 1):
            changed = False
            for a, b in self.edges:
                d = distance[a] + self.weight((a, b))
                if d > distance[b]:
                    distance[b], changed = d, True
                if reached[a] + 1 > reached[b]:
                    reached[b], changed = reached[a] + 1, True
            if not changed:
                return distance
        return None

    def is_tie(self, pair):
        a, b = (n[0] for n in pair)
        places = [("device", *self.place(n)) if n in self.work else ("host", self.events[n]["tid"]) for n in (a, b)]
        return places[0] != places[1]

    def longest(self):
        distance = self.relax()
        if distance is None:
            self.edges = {
                p: e for p, e in self.edges.items() if not (self.is_tie(p) and self.time(p[0]) >= self.time(p[1]))
            }
            distance = self.relax()
        return max(distance.values(), default=0)
