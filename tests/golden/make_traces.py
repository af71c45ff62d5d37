#!/usr/bin/env python3
"""Writes the small traces behind the golden files. Every number is chosen by hand, so answers can be worked out on
paper.

tests/golden/make_traces.py DIR"""

import json
import pathlib
import sys


class Recording:
    """Builds Kineto events; times are in microseconds as they stand in the file."""

    def __init__(self, **document):
        self.events = []
        self.document = document

    def add(self, **event):
        self.events.append(event)

    def slice(self, cat, name, ts, dur, tid=1, pid=1, **args):
        self.add(ph="X", cat=cat, name=name, pid=pid, tid=tid, ts=ts, dur=dur, **({"args": args} if args else {}))

    def launch(
        self,
        ts,
        dur,
        correlation,
        kernel,
        start,
        length,
        stream=7,
        cat="kernel",
        call="cudaLaunchKernel",
        device=0,
        external=None,
        **args,
    ):
        """A runtime call, what it runs on the device, and the arrow between them."""
        link = {"External id": external} if external is not None else {}
        self.slice("cuda_runtime", call, ts, dur, correlation=correlation, **link)
        self.slice(
            cat,
            kernel,
            start,
            length,
            pid=device,
            tid=stream,
            device=device,
            stream=stream,
            correlation=correlation,
            **link,
            **args,
        )
        self.add(ph="s", id=correlation, pid=1, tid=1, ts=ts, cat="ac2g", name="ac2g")
        self.add(ph="f", id=correlation, pid=device, tid=stream, ts=start, cat="ac2g", name="ac2g", bp="e")

    def names(self, pid, process, threads, labels=None):
        self.add(ph="M", name="process_name", pid=pid, tid=0, ts=0, args={"name": process})
        if labels:
            self.add(ph="M", name="process_labels", pid=pid, tid=0, ts=0, args={"labels": labels})
        for tid, name in threads.items():
            self.add(ph="M", name="thread_name", pid=pid, tid=tid, ts=0, args={"name": name})

    def text(self):
        head = json.dumps({"schemaVersion": 1, **self.document})
        return head[:-1] + ', "traceEvents": [\n' + ",\n".join(map(json.dumps, self.events)) + "\n]}\n"


V100 = {
    "id": 0,
    "name": "Tesla V100-SXM2-16GB",
    "totalGlobalMem": 16945512448,
    "computeMajor": 7,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "warpSize": 32,
    "numSms": 80,
}


def cpu_training():
    """Three steps of 100 µs on the CPU: 60 µs waiting for the data loader, forward, backward, optimizer."""
    r = Recording()
    r.names(1, "python", {1: "thread 1 (python)", 2: "thread 2 (autograd)"})
    for step in range(3):
        t = 1000 + 100 * step
        r.slice("user_annotation", f"ProfilerStep#{step + 5}", t, 100)
        r.slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t, 60)
        r.slice("cpu_op", "aten::stack", t + 50, 8)
        r.slice(
            "cpu_op", "aten::linear", t + 60, 20, **{"Input Dims": [[32, 64], [10, 64], [10]], "Sequence number": step}
        )
        r.slice(
            "cpu_op",
            "aten::addmm",
            t + 62,
            16,
            **{
                "Input Dims": [[10], [32, 64], [64, 10], [], []],
                "Sequence number": step,
                "Input type": ["float", "float", "float", "Scalar", "Scalar"],
            },
        )
        r.slice("cpu_op", "AddmmBackward0", t + 82, 10, tid=2, **{"Sequence number": step, "Fwd thread id": 1})
        r.slice(
            "cpu_op",
            "aten::mm",
            t + 83,
            8,
            tid=2,
            **{"Input Dims": [[64, 32], [32, 10]], "Input type": ["float", "float"]},
        )
        r.add(ph="s", id=step + 1, pid=1, tid=1, ts=t + 62, cat="fwdbwd", name="fwdbwd")
        r.add(ph="f", id=step + 1, pid=1, tid=2, ts=t + 82, cat="fwdbwd", name="fwdbwd", bp="e")
        r.slice("user_annotation", "Optimizer.step#SGD.step", t + 93, 6)
        r.slice("cpu_op", "aten::add_", t + 94, 4, **{"Input Dims": [[10, 64], [10, 64], []]})
    return r.text()


def gpu_training():
    """Two steps, kernels on stream 7, a collective on stream 20 that overlaps one of them, copies, and a wait."""
    r = Recording(deviceProperties=[V100], distributedInfo={"backend": "nccl", "rank": 1, "world_size": 2})
    r.names(1, "python", {1: "thread 1 (python)"}, "CPU")
    r.names(0, "python", {7: "stream 7", 20: "stream 20"}, "GPU 0")
    for step in range(2):
        t, c = 5000 + 200 * step, 100 * (step + 1)
        wide = {
            "grid": [80, 1, 1],
            "block": [256, 1, 1],
            "registers per thread": 32,
            "shared memory": 0,
            "blocks per SM": 1.0,
            "warps per SM": 8.0,
            "est. achieved occupancy %": 13,
        }
        r.slice("user_annotation", f"ProfilerStep#{step}", t, 190)
        r.slice("cpu_op", "aten::to", t + 5, 15, **{"External id": c + 1})
        r.launch(
            t + 8,
            6,
            c + 50 + 1,
            "Memcpy HtoD (Pageable -> Device)",
            t + 16,
            10,
            cat="gpu_memcpy",
            call="cudaMemcpyAsync",
            external=c + 1,
            bytes=40960,
            **{"memory bandwidth (GB/s)": 4.096},
        )
        r.slice("cpu_op", "aten::linear", t + 22, 20, **{"External id": c + 2})
        r.slice("cpu_op", "aten::addmm", t + 24, 16, **{"External id": c + 3, "Input Dims": [[10], [32, 64], [64, 10]]})
        r.launch(t + 30, 5, c + 50 + 3, "volta_sgemm_128x64_nn", t + 40, 50, external=c + 3, **wide)
        r.slice("cpu_op", "nccl:all_reduce", t + 45, 15, **{"External id": c + 4})
        r.launch(
            t + 50,
            5,
            c + 50 + 4,
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            t + 70,
            60,
            stream=20,
            external=c + 4,
            **{"Collective name": "allreduce", "In msg nelems": 650, "Group size": 2, "dtype": "Float"},
        )
        r.slice("cpu_op", "aten::zero_", t + 65, 8, **{"External id": c + 5})
        r.launch(
            t + 67,
            4,
            c + 50 + 5,
            "Memset (Device)",
            t + 130,
            5,
            cat="gpu_memset",
            call="cudaMemsetAsync",
            external=c + 5,
            bytes=2560,
        )
        r.slice("cuda_runtime", "cudaStreamSynchronize", t + 80, 60, correlation=c + 9)
        r.slice("user_annotation", "Optimizer.step#SGD.step", t + 150, 30)
        r.slice("cpu_op", "aten::_foreach_add_", t + 152, 20, **{"External id": c + 6})
        r.launch(
            t + 160,
            5,
            c + 50 + 6,
            "void at::native::multi_tensor_apply_kernel<float>()",
            t + 170,
            10,
            external=c + 6,
            **wide,
        )
    return r.text()


def amd_training():
    """ROCm's spelling: hipLaunchKernel, a string stream on the host side, stream 0, three decimals, a base time."""
    r = Recording(
        baseTimeNanoseconds=1700000000000000000,
        deviceProperties=[{"id": 2, "name": "AMD Instinct MI250X", "totalGlobalMem": 68702699520, "numSms": 110}],
    )
    r.names(1, "python", {1: "thread 1 (python)"})
    r.names(2, "python", {0: "stream 0"}, "GPU 2")
    r.slice("user_annotation", "ProfilerStep#1", 9000.125, 120.5)
    r.slice("cpu_op", "aten::mm", 9010.25, 30.125, **{"External id": 11})
    r.slice(
        "cuda_runtime", "hipLaunchKernel", 9020.001, 9.999, **{"External id": 11, "correlation": 501, "stream": "0x0"}
    )
    r.slice(
        "kernel",
        "Cijk_Ailk_Bljk_SB_MT64x64",
        9040.5,
        40.75,
        pid=2,
        tid=0,
        device=2,
        stream=0,
        correlation=501,
        **{"External id": 11},
    )
    r.slice("cuda_runtime", "hipMemcpyWithStream", 9062, 30.5, correlation=502, stream="0x0")
    r.slice(
        "gpu_memcpy", "CopyDeviceToHost", 9081.5, 8.25, pid=2, tid=0, device=2, stream=0, correlation=502, bytes=4096
    )
    r.slice("gpu_user_annotation", "ProfilerStep#1", 9040.5, 49.25, pid=2, tid=0, device=2, stream=0)
    return r.text()


def names_of_2021():
    """Early Kineto: other category names, ids as strings, 'external id', call stacks as text, [memory] without
    addresses."""
    r = Recording()
    r.names("1234", "python", {"77": "thread 77 (python)"}, "CPU")
    r.names("0", "python", {"7": "stream 7"}, "GPU 0")
    host, device = {"pid": "1234", "tid": "77"}, {"pid": "0", "tid": "7"}
    r.slice("user_annotation", "ProfilerStep#7", 300, 90, **host)
    r.slice(
        "Operator",
        "aten::conv2d",
        310,
        40,
        **host,
        **{
            "external id": 4,
            "Input dims": [[8, 3, 32, 32], [16, 3, 3, 3]],
            "Call stack": "train.py(30): step;train.py(12): forward",
            "Trace name": "PyTorch Profiler",
            "Trace iteration": 7,
        },
    )
    r.slice(
        "Operator",
        "aten::cudnn_convolution",
        315,
        30,
        **host,
        **{"external id": 5, "Call stack": "train.py(30): step;train.py(12): forward"},
    )
    r.slice("Runtime", "cudaLaunchKernel", 320, 10, **host, **{"external id": 5, "correlation": 900})
    r.slice(
        "Kernel",
        "implicit_convolve_sgemm",
        335,
        45,
        **device,
        **{"external id": 5, "correlation": 900, "device": 0, "stream": 7},
    )
    r.add(
        ph="i",
        s="t",
        cat="cpu_instant_event",
        name="[memory]",
        ts=318,
        **host,
        args={"Device Type": 1, "Device Id": 0, "Bytes": 524288},
    )
    r.slice(
        "Memcpy",
        "Memcpy DtoH (Device -> Pageable)",
        381,
        4,
        **device,
        **{"external id": 6, "correlation": 901, "device": 0, "stream": 7},
    )
    return r.text()


def memory_events():
    """Two blocks on the CPU, three on the GPU: one freed, one alive at the end, one freed that was there before."""
    r = Recording()
    r.slice("user_annotation", "ProfilerStep#0", 0, 100)
    for start, name in ((10, "aten::empty"), (30, "aten::relu"), (60, "aten::mul")):
        r.slice("cpu_op", name, start, 15)

    def event(ts, size, addr, kind, total, reserved):
        r.add(
            ph="i",
            s="t",
            cat="cpu_instant_event",
            name="[memory]",
            pid=1,
            tid=1,
            ts=ts,
            args={
                "Device Type": kind,
                "Device Id": 0 if kind else -1,
                "Bytes": size,
                "Addr": addr,
                "Total Allocated": total,
                "Total Reserved": reserved,
            },
        )

    event(12, 1024, 0x1000, 0, 1024, 0)
    event(14, 4096, 0x7000, 1, 8192, 2097152)
    event(32, 2048, 0x2000, 0, 3072, 0)
    event(35, 8192, 0x8000, 1, 16384, 2097152)
    event(40, -4096, 0x7000, 1, 12288, 2097152)
    event(62, -1024, 0x1000, 0, 2048, 0)
    event(70, -4096, 0x6000, 1, 8192, 2097152)
    return r.text()


def memory_training():
    """Five steps that train two layers; each takes 100 bytes more in aten::cat and keeps them. The tensors of the model
    are told."""
    r = Recording()

    def memory(ts, size, addr, tid=1):
        r.add(
            ph="i",
            s="t",
            cat="cpu_instant_event",
            name="[memory]",
            pid=1,
            tid=tid,
            ts=ts,
            args={"Device Type": 0, "Device Id": -1, "Bytes": size, "Addr": addr},
        )

    def tensor(kind, name, size, addr):
        r.add(
            ph="i",
            s="t",
            cat="cpu_instant_event",
            name="[tensor]",
            pid=1,
            tid=1,
            ts=990,
            args={"Tensor": name, "Kind": kind, "Bytes": size, "Device Id": -1, "Device Type": 0, "Addr": addr},
        )

    def module(ts, dur, name, path):
        r.slice(
            "python_function",
            f"nn.Module: {name}",
            ts,
            dur,
            **{"Python module id": 0, **({"Module path": path} if path else {})},
        )

    tensor("parameter", "layers.0.weight", 400, 0x100)
    tensor("buffer", "layers.1.mean", 40, 0x200)
    for k in range(5):
        t = 1000 + 100 * k
        r.slice("user_annotation", f"ProfilerStep#{k}", t, 90)
        module(t + 5, 30, "Net_0", "")
        for layer, at, one, two in ((0, t + 6, 0x1000, 0x1800), (1, t + 18, 0x3000, 0x3800)):
            module(at, 10, f"Linear_{layer}", f"layers.{layer}")
            r.slice(
                "cpu_op",
                "aten::linear",
                at + 1,
                8,
                **{"Sequence number": 2 * k + layer, "Call stack": "torch/nn/linear.py(9): forward;train.py(12): step"},
            )
            memory(at + 2, 300, one)
            memory(at + 3, 50, 0x2000)  # temporary
            memory(at + 4, -50, 0x2000)
            memory(at + 6, 200, two)  # the layer's output
        r.slice("cpu_op", "aten::cat", t + 37, 3, **{"Call stack": "train.py(20): log"})
        memory(t + 38, 100, 0x9000 + 0x100 * k)  # stays
        for layer, at in ((1, t + 45), (0, t + 56)):
            r.slice(
                "cpu_op",
                "autograd::engine::evaluate_function: AddmmBackward0",
                at,
                10,
                tid=2,
                **{"Sequence number": 2 * k + layer, "Fwd thread id": 1},
            )
        memory(t + 46, 400, 0x4000, tid=2)  # gradient
        memory(t + 47, 60, 0x5000, tid=2)  # for the next node
        memory(t + 48, -300, 0x3000, tid=2)
        memory(t + 49, -200, 0x3800, tid=2)
        memory(t + 57, -60, 0x5000, tid=2)
        memory(t + 58, -300, 0x1000, tid=2)
        memory(t + 59, -200, 0x1800, tid=2)
        r.slice("user_annotation", "Optimizer.step#SGD.step", t + 70, 10)
        r.slice("cpu_op", "aten::mul", t + 71, 4)
        if k == 0:
            memory(t + 72, 400, 0x6000)  # state
        memory(t + 73, 20, 0x7000)
        r.slice("cpu_op", "aten::add_", t + 76, 3)
        memory(t + 78, -20, 0x7000)
        memory(t + 85, -400, 0x4000)
    return r.text()


def memory_timeline():
    """PyTorch's raw memory timeline: [time ns, action, bytes, category]; the last two entries are damaged."""
    return (
        "[[-1, 1, 1000, 0], [-1, 1, 64, 7], [5000, 2, 300, 4], [5000, 2, 10, 3], [6000, 4, -10, 3], [7000, 3, -300, 4],\n"
        ' [7000, 3, 300, 5], [8000, 4, -300, 5], [9, 2, "x", 3], [9000, 2, 1, 9]]'
    )


def every_phase():
    """A bare array with B/E pairs (one never closed, one end too many), async spans, instants, counters, flows, an
    overlap."""
    at = {"pid": 1, "tid": 1}
    events = [
        {"ph": "B", "cat": "cpu_op", "name": "outer", "ts": 10, **at, "args": {"depth": 0}},
        {"ph": "B", "cat": "cpu_op", "name": "inner", "ts": 12, **at},
        {"ph": "E", "ts": 15, **at},
        {"ph": "E", "ts": 20, **at},
        {"ph": "E", "ts": 21, **at},
        {"ph": "B", "cat": "cpu_op", "name": "never closed", "ts": 30, **at},
        {"ph": "X", "cat": "cpu_op", "name": "first", "ts": 32, "dur": 10, **at},
        {"ph": "X", "cat": "cpu_op", "name": "overlaps first", "ts": 40, "dur": 6, **at},
        {"ph": "b", "cat": "request", "name": "GET /", "id": "0xa", "ts": 5, **at},
        {"ph": "n", "cat": "request", "name": "GET /", "id": "0xa", "ts": 8, **at},
        {"ph": "e", "cat": "request", "name": "GET /", "id": "0xa", "ts": 25, **at},
        {"ph": "i", "s": "g", "cat": "cpu_op", "name": "instant", "ts": 16, **at},
        {"ph": "I", "cat": "cpu_op", "name": "Instant of old", "ts": 17, **at},
        {"ph": "C", "name": "queue", "ts": 10, "pid": 1, "args": {"length": 3, "waiting": 1}},
        {"ph": "C", "name": "queue", "ts": 20, "pid": 1, "args": {"length": 5, "waiting": 0}},
        {"ph": "s", "id": 1, "cat": "flow", "name": "arrow", "ts": 33, **at},
        {"ph": "f", "bp": "e", "id": 1, "cat": "flow", "name": "arrow", "ts": 41, **at},
        {"ph": "M", "name": "thread_name", "ts": 0, **at, "args": {"name": "main <b>&amp;"}},
    ]
    return json.dumps(events)


def python_stacks():
    """Frames of Python around operators, modules among them, and a kernel below the innermost."""
    r = Recording()
    r.slice("user_annotation", "ProfilerStep#0", 0, 200)
    frames = [
        ("train.py(40): main", 0, 200),
        ("train.py(21): step", 10, 150),
        ("nn.Module: Net_0", 20, 100),
        ("model.py(12): forward", 21, 98),
        ("nn.Module: Linear_0", 30, 50),
        ("torch/nn/modules/linear.py(130): forward", 31, 48),
    ]
    for number, (name, ts, dur) in enumerate(frames):
        module = {"Python module id": int(name[-1])} if name.startswith("nn.Module") else {}
        r.slice(
            "python_function", name, ts, dur, **{"Python id": number + 1, "Python parent id": number or None, **module}
        )
    r.slice("cpu_op", "aten::linear", 35, 30, **{"External id": 1})
    r.launch(40, 5, 1, "gemm", 50, 25, external=1)
    r.slice("cpu_op", "aten::sum", 130, 10, **{"External id": 2})
    return r.text()


def damaged():
    """Five events, one of them without a readable time and one with a negative length; between them one that is not
    JSON and one that is no object; then the file ends."""
    good = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": %s, "dur": %s}'
    return (
        '{"traceEvents": [\n'
        + good % ("one", "1.5", "2")
        + ",\n"
        + '{"ph": "X" "name": "no comma"},\n'
        + "42,\n"
        + good % ("two", '"soon"', "1")
        + ",\n"
        + good % ("three", "10", "-1.-500")
        + ",\n"
        + good % ("four", "20", "3.0005")
        + ",\n"
        + good % ("five \\ud800", "30", "4")
        + ",\n"
        + '{"ph": "X", "cat": "cpu_op", "name": "cut'
    )


def rank_of_two(rank):
    """One rank of two: the second started 1 ms later and computes longer, the first waits in the collective."""
    r = Recording(
        baseTimeNanoseconds=1700000000000000000 + 1000000 * rank,
        distributedInfo={"backend": "nccl", "rank": rank, "world_size": 2},
    )
    r.names(1, "python", {1: "thread 1 (python)"})
    compute, base = 60 + 40 * rank, 2000 - 1000 * rank
    r.slice("user_annotation", "ProfilerStep#3", base, 200)
    r.slice("cpu_op", "aten::mm", base + 5, 10, **{"External id": 1})
    r.launch(base + 8, 4, 1, "gemm", base + 20, compute, external=1)
    r.slice("cpu_op", "nccl:all_reduce", base + 20, 10, **{"External id": 2})
    r.launch(
        base + 22,
        4,
        2,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
        base + 20 + compute,
        160 - compute,
        stream=20,
        external=2,
    )
    return r.text()


TRACES = {
    "cpu_training.json": cpu_training,
    "gpu_training.json": gpu_training,
    "amd_training.json": amd_training,
    "names_of_2021.json": names_of_2021,
    "memory_events.json": memory_events,
    "memory_training.json": memory_training,
    "memory_timeline.json": memory_timeline,
    "every_phase.json": every_phase,
    "python_stacks.json": python_stacks,
    "damaged.json": damaged,
    "two_ranks/rank0.json": lambda: rank_of_two(0),
    "two_ranks/rank1.json": lambda: rank_of_two(1),
}


def write(folder):
    """Write all traces below folder; returns the paths to open, by name."""
    folder = pathlib.Path(folder)
    opened = {}
    for name, build in TRACES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(build(), encoding="utf-8")
        top = name.split("/")[0]
        opened[top.removesuffix(".json")] = folder / top
    return opened


if __name__ == "__main__":
    for made in write(sys.argv[1]).values():
        print(made)
