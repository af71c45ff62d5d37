"""Random traces in the shapes profilers write: threads whose operators launch work, streams that run it in order,
steps, annotations, frames of modules, memory events. make(seed) gives one document a rank; how it was recorded is drawn
from the seed unless told."""

import random

COLLECTIVES = (
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)",
)
KERNELS = (
    "volta_sgemm_128x64_nn",
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    "triton_poi_fused_add_0",
    "void softmax<float, 4>(int)",
)
COPIES = ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)")
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC")
COPY_CALLS = ("cudaMemcpyAsync", "cudaMemsetAsync")
OTHER_CALLS = ("cudaMalloc", "cudaStreamWaitEvent", "cudaDeviceSynchronize")
OPS = (
    "aten::mm",
    "aten::addmm",
    "aten::conv2d",
    "aten::add_",
    "aten::copy_",
    "aten::relu",
    "record_param_comms",
    "naïve – 名前",
)
OLD = {
    "cpu_op": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "user_annotation": "Operator",
}
MODULES = ("Net", "Block", "Linear")


class How:
    """What was drawn about the recording."""

    def __init__(self, rnd, **fixed):
        pick = rnd.choice
        self.old = rnd.random() < 0.3  # the categories of 2021
        self.gpu = True
        self.steps, self.first = pick((0, 1, 2, 3, 4)), pick((0, 2, 551))
        self.streams = pick(((7,), (7, 20), (0, 7), (7, 13, 24)))
        self.base = pick((0, 1_000_000, 4_203_669_603_188))
        self.gap = pick((0, 3_000))  # between steps
        self.lost_calls = pick((0, 0, 0.3))  # device work whose call is missing
        self.lost_work = pick((0, 0, 0.3))  # calls whose work is missing
        self.ops, self.depth = pick((3, 8)), pick((1, 2, 4))
        self.python = self.memory = False
        self.device_ranges = rnd.random() < 0.4
        self.slow = pick((1, 4))  # durations on the device
        self.shuffled = rnd.random() < 0.3
        self.__dict__.update(fixed)


class Recorder:
    def __init__(self, rnd, how, rank):
        self.rnd, self.how, self.pid, self.tid = rnd, how, 4711 + rank, 4711
        self.events, self.free = [], {}
        self.correlation = self.external = self.frame_id = 0

    def add(self, cat, name, pid, tid, ts, dur, args, **more):
        self.events.append(
            {
                "ph": "X",
                "cat": OLD.get(cat, cat) if self.how.old else cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "args": args,
                **more,
            }
        )
        return self.events[-1]

    def external_key(self):
        return "external id" if self.how.old else "External id"

    def op(self, t, depth, parent=None):
        """One operator and all below it; its end."""
        rnd, self.external = self.rnd, self.external + 1
        name, me = rnd.choice([n for n in OPS if n != parent]), self.external
        e = self.add(
            "cpu_op",
            name,
            self.pid,
            self.tid,
            t,
            0,
            {self.external_key(): me, "Input Dims": [[rnd.randint(1, 8), 16], []]},
        )
        inner = t + rnd.randint(10, 5_000)
        if depth < self.how.depth and not self.how.python and rnd.random() < 0.2:
            span = self.add("user_annotation", rnd.choice(("forward", "my range")), self.pid, self.tid, inner, 0, {})
            inner = self.op(inner + rnd.randint(10, 900), depth + 1, name) + rnd.randint(10, 900)
            span["dur"] = inner - span["ts"]
        for _ in range(rnd.randint(0, 2) if depth < self.how.depth else 0):
            inner = self.op(inner + rnd.randint(10, 3_000), depth + 1, name)
        for _ in range(rnd.randint(0, 2) if self.how.gpu else 0):
            inner = self.call(inner + rnd.randint(10, 2_000), me)
        e["dur"] = inner + rnd.randint(10, 2_000) - t
        return t + e["dur"]

    def call(self, t, external):
        rnd, how = self.rnd, self.how
        self.correlation += rnd.randint(1, 2)
        kind = rnd.choices((LAUNCHES, COPY_CALLS, OTHER_CALLS), (6, 2, 1))[0]
        name, dur = rnd.choice(kind), rnd.randint(1_000, 9_000)
        args = {"cbid": 211, "correlation": self.correlation, self.external_key(): external}
        if rnd.random() >= how.lost_calls or kind is OTHER_CALLS:
            self.add("cuda_runtime", name, self.pid, self.tid, t, dur, args)
        if kind is not OTHER_CALLS and rnd.random() >= how.lost_work:
            self.work(t + rnd.randint(dur // 2, 2 * dur), external, name)
        return t + dur

    def work(self, earliest, external, call):
        rnd, stream = self.rnd, self.rnd.choice(self.how.streams)
        start = max(earliest, self.free.get(stream, 0)) + rnd.randint(1, rnd.choice((9, 60_000)))
        dur = self.how.slow * rnd.randint(500, 30_000)
        args = {
            "device": 0,
            "context": 1,
            "stream": stream,
            "correlation": self.correlation,
            self.external_key(): external,
        }
        if "emc" in call or "ems" in call:
            cat, name = ("gpu_memset", "Memset (Device)") if "ems" in call else ("gpu_memcpy", rnd.choice(COPIES))
            args.update({"bytes": rnd.randint(1, 1 << 22), "memory bandwidth (GB/s)": rnd.choice((0.25, 1.5, 12.5))})
        else:
            cat, name = "kernel", rnd.choice(KERNELS if rnd.random() < 0.8 else COLLECTIVES)
            args.update(
                {
                    "grid": [rnd.randint(1, 90), 1, 1],
                    "block": [128, 1, 1],
                    "registers per thread": 32,
                    "shared memory": 0,
                    "blocks per SM": rnd.choice((0.5, 1, 12.5)),
                    "warps per SM": 4,
                    "est. achieved occupancy %": rnd.choice((0, 31, 100)),
                }
            )
        self.add(cat, name, 0, stream, start, dur, args)
        self.free[stream] = start + dur

    def frame(self, t, depth, parent):
        """A call of a module, with one another or operators inside; its end."""
        self.frame_id += 1
        me, which = self.frame_id, self.rnd.randint(0, 1)
        e = self.add(
            "python_function",
            "nn.Module: %s_%d" % (MODULES[depth], which),
            self.pid,
            self.tid,
            t,
            0,
            {"Python parent id": parent, "Python id": me, "Python module id": 2 * depth + which},
        )
        for _ in range(self.rnd.randint(1, 2)):
            t += self.rnd.randint(10, 1_000)
            t = self.frame(t, depth + 1, me) if depth + 1 < len(MODULES) and self.rnd.random() < 0.6 else self.op(t, 1)
        e["dur"] = t + self.rnd.randint(10, 1_000) - e["ts"]
        return e["ts"] + e["dur"]

    def record(self):
        rnd, how = self.rnd, self.how
        t = how.base + 50_000
        for k in range(max(1, how.steps)):
            begin, t = t, t + rnd.randint(10, 2_000)
            for _ in range(how.ops):
                t = (self.frame(t, 0, None) if how.python and rnd.random() < 0.6 else self.op(t, 0)) + rnd.randint(
                    10, 20_000
                )
            if how.steps:
                self.mark("ProfilerStep#%d" % (how.first + k), begin, t)
            t += how.gap + 1
        if how.memory:
            self.blocks()
        if how.shuffled:
            rnd.shuffle(self.events)

    def mark(self, name, begin, end):
        self.add("user_annotation", name, self.pid, self.tid, begin, end - begin, {})
        stream = self.how.streams[0]
        if self.how.device_ranges and self.free.get(stream, 0) > begin + 6_000:
            self.add("gpu_user_annotation", name, 0, stream, begin + 5_000, self.free[stream] - begin - 5_000, {})

    def blocks(self):
        """One block taken in each operator, some given back in a later one."""
        live = []
        for e in sorted((e for e in self.events if e["cat"] in ("cpu_op", "Operator")), key=lambda e: e["ts"]):
            args = {
                "Device Type": 0,
                "Device Id": -1,
                "Addr": 4096 * (len(self.events) + 1),
                "Bytes": 1024 * self.rnd.randint(1, 64),
            }
            if live and self.rnd.random() < 0.4:
                args = {**live.pop(), "Total Allocated": 0}
                args["Bytes"] = -args["Bytes"]
            else:
                live.append(args)
            self.events.append(
                {
                    "ph": "i",
                    "s": "t",
                    "name": "[memory]",
                    "pid": self.pid,
                    "tid": self.tid,
                    "ts": e["ts"] + 3,
                    "args": args,
                }
            )


def document(rnd, how, rank, world):
    r = Recorder(rnd, how, rank)
    r.record()
    for e in r.events:  # ranks do the same; what they wait for ends at other times
        if rank and e["name"].startswith("nccl") and rnd.random() < 0.5:
            e["dur"] -= 100
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "deviceProperties": [
            {
                "id": 0,
                "name": "Test GPU",
                "totalGlobalMem": 1 << 34,
                "computeMajor": 8,
                "computeMinor": 0,
                "numSms": 108,
                "maxThreadsPerMultiprocessor": 2048,
                "maxThreadsPerBlock": 1024,
                "regsPerMultiprocessor": 65536,
                "warpSize": 32,
            }
        ]
        if how.gpu
        else [],
        "traceEvents": r.events,
        "traceName": "t.json",
    }


def make(seed, ranks=1, **fixed):
    how = How(random.Random(seed), **fixed)
    return [document(random.Random("%s of %s" % (seed, how.shuffled)), how, rank, ranks) for rank in range(ranks)]
