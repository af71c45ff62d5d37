"""Small runs of several ranks for tests: their content as reference_ranks.py takes it, the files, and the program that
is asked about them."""

import json
import random
import subprocess

KINDS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
C10D = {
    "all_reduce": "c10d::allreduce_",
    "all_gather": "c10d::_allgather_base_",
    "reduce_scatter": "c10d::_reduce_scatter_base_",
    "broadcast": "c10d::broadcast_",
    "send_recv": "c10d::send",
}
PARAMS = {
    "all_reduce": "allreduce",
    "all_gather": "_allgather_base",
    "reduce_scatter": "_reduce_scatter_base",
    "broadcast": "broadcast",
    "send_recv": "send",
}
KERNEL = {
    "all_reduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_gather": "ncclDevKernel_AllGather_RING_LL(x)",
    "reduce_scatter": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)",
    "broadcast": "ncclKernel_Broadcast_RING_LL_Sum_int8_t",
    "send_recv": "ncclDevKernel_SendRecv(x)",
}


def us(ns):
    return round(ns / 1000, 3)


def write_rank(path, rank, world, device=True, info=True):
    """The rank as Kineto writes it: request, record_param_comms, annotation, launch and kernel; or gloo's span on a
    thread of its own."""
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{n}",
            "pid": 1,
            "tid": 1,
            "ts": us(a),
            "dur": us(b - a),
        }
        for n, a, b in rank["steps"]
    ]
    for k, c in enumerate(rank["collectives"], 1):
        args = {"Collective name": PARAMS[c["kind"]], "dtype": "Float", "Group size": world}
        if c["bytes"] is not None:
            args["In msg nelems"] = c["bytes"] // 4
        if c["seq"] is not None:
            args["Seq"] = c["seq"]
        if c["group"]:
            args["Process Group Name"] = c["group"]
        if device:
            events += [
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": C10D[c["kind"]],
                    "pid": 1,
                    "tid": 1,
                    "ts": us(c["call"]),
                    "dur": 0.04,
                },
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": "record_param_comms",
                    "pid": 1,
                    "tid": 1,
                    "ts": us(c["call"]),
                    "dur": 0.03,
                    "args": args,
                },
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": "nccl:" + c["kind"],
                    "pid": 1,
                    "tid": 1,
                    "ts": us(c["call"]),
                    "dur": 0.02,
                },
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernelExC",
                    "pid": 1,
                    "tid": 1,
                    "ts": us(c["call"]),
                    "dur": 0.01,
                    "args": {"correlation": k},
                },
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": c.get("kernel", KERNEL[c["kind"]]),
                    "pid": 0,
                    "tid": 20,
                    "ts": us(c["start"]),
                    "dur": us(c["end"] - c["start"]),
                    "args": {"device": 0, "stream": 20, "correlation": k},
                },
            ]
            if "ends" in c:
                events[-3]["name"] = (
                    ("nccl:send %d->%d" % c["ends"])
                    if rank["number"] == c["ends"][0]
                    else "nccl:recv %d<-%d" % c["ends"][::-1]
                )
        else:
            args = {"Input Dims": [[c["bytes"] // 4]], "Input type": ["float"]} if c["bytes"] is not None else {}
            events += [
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": C10D[c["kind"]],
                    "pid": 1,
                    "tid": 1,
                    "ts": us(c["call"]),
                    "dur": 0.001,
                },
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": "gloo:" + c["kind"],
                    "pid": 1,
                    "tid": 2,
                    "ts": us(c["start"]),
                    "dur": us(c["end"] - c["start"]),
                    "args": args,
                },
            ]
    document = {"schemaVersion": 1, "baseTimeNanoseconds": rank["base"], "traceEvents": events}
    if info:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank["number"], "world_size": world}
    path.write_text(json.dumps(document))


def write(folder, run, **how):
    folder.mkdir(parents=True, exist_ok=True)
    for i, rank in enumerate(run):
        write_rank(
            folder / f"rank{i:03d}.json",
            rank,
            how.get("world", len(run)),
            how.get("device", True),
            how.get("info", True),
        )
    return folder


def make_run(seed, numbered=True, whole=True, groups=("",), ranks=None):
    """Ranks that meet in collectives: each comes when it will, all leave within 400 ns of one another."""
    rnd = random.Random(seed)
    count = ranks or rnd.randint(2, 5)
    run = [
        {
            "number": i,
            "base": 1_700_000_000_000_000_000 + rnd.choice((0, 5_000, 1_000_000)),
            "steps": [],
            "collectives": [],
        }
        for i in range(count)
    ]
    ahead = [rnd.randint(-300_000, 300_000) for _ in run]
    now = 10_000_000
    for step in range(rnd.randint(1, 4)):
        begin = now
        for k in range(rnd.randint(1, 5)):
            group, kind = rnd.choice(groups), rnd.choice(KINDS)
            size = 4 * rnd.randint(1, 1 << 20)
            comes = [now + rnd.randint(0, 50_000) for _ in run]
            done = max(comes) + rnd.randint(500, 20_000)
            for i, rank in enumerate(run):
                if not whole and rnd.random() < 0.2:
                    continue
                start = comes[i] + ahead[i] - rank["base"] + run[0]["base"]
                end = done + rnd.randint(0, 400) + ahead[i] - rank["base"] + run[0]["base"]
                rank["collectives"].append(
                    {
                        "kind": kind,
                        "group": group,
                        "seq": 100 * step + k if numbered else None,
                        "bytes": size if rnd.random() < 0.9 else None,
                        "call": start - rnd.randint(50, 4000),
                        "start": start,
                        "end": end,
                    }
                )
            now = done + 60_000
        now += 100_000
        for i, rank in enumerate(run):
            shift = ahead[i] - rank["base"] + run[0]["base"]
            rank["steps"].append((step, begin + shift - 10_000, now + shift - 20_000))
    for rank in run:
        rank["collectives"].sort(key=lambda c: c["call"])
    return run


class Asker:
    def __init__(self, binary):
        self.binary = str(binary)

    def run(self, *words):
        return subprocess.run(
            [self.binary, *map(str, words)], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
        )

    def json(self, *words):
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def __call__(self, path, question, **args):
        words = [w for k, v in args.items() for w in ("--" + k.replace("_", "-"), v)]
        answer = self.json("ask", path, question, *words)
        names = [c["name"] for c in answer["columns"]]
        return [dict(zip(names, row)) for row in answer["rows"]]

    def notes(self, path, question):
        return " ".join(self.json("ask", path, question)["notes"])


def collective(start, end, kind="all_reduce", seq=None, size=4000, group="", call=None):
    return {
        "kind": kind,
        "group": group,
        "seq": seq,
        "bytes": size,
        "call": start - 100 if call is None else call,
        "start": start,
        "end": end,
    }


def simple_run(late=5000):
    """Two ranks, two steps of 100 us with one all_reduce each; rank 1 comes `late` ns later, its clock is 70 us
    ahead."""
    run = []
    for number, ahead, lag in ((0, 0, 0), (1, 70_000, late)):
        rank = {"number": number, "base": 1_700_000_000_000_000_000, "steps": [], "collectives": []}
        for step in range(2):
            t = 1_000_000 + 100_000 * step + ahead
            rank["steps"].append((step, t, t + 100_000))
            rank["collectives"].append(collective(t + 40_000 + lag, t + 60_000))
        run.append(rank)
    return run
