"""Traces of programs on a GPU, written by hand: what is wrong with each is known because it was put there.

Times are microseconds. A step is a ProfilerStep annotation on the thread; work is launched by a call on the thread and
linked to its kernel by a correlation.
"""

import json

THREAD, SAMPLER, STREAM, COMM_STREAM = 10, 11, 7, 20


class Program:
    def __init__(self, device="NVIDIA A100-SXM4-80GB", capability=(8, 0)):
        self.events, self.next_id, self.members = [], 1, {}
        self.properties = [{
            "id": 0, "name": device, "totalGlobalMem": 80 << 30, "computeMajor": capability[0],
            "computeMinor": capability[1], "numSms": 108,
        }]  # fmt: skip

    def host(self, name, at, dur, cat="cpu_op", tid=THREAD, **args):
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": at, "dur": dur, "args": args}
        )

    def step(self, number, at, dur):
        self.host(f"ProfilerStep#{number}", at, dur, "user_annotation")

    def device(self, name, at, dur, correlation, stream=STREAM, cat="kernel", **args):
        args = {"correlation": correlation, "device": 0, "stream": stream, **args}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": at, "dur": dur, "args": args}
        )

    def launch(self, name, at, kernel_at, kernel_dur, call="cudaLaunchKernel", call_dur=5, op=None, **args):
        """One call that launches one kernel; op: the operator around the call."""
        self.next_id += 1
        if op:
            self.host(op, at - 2, call_dur + 4)
        self.host(call, at, call_dur, "cuda_runtime", correlation=self.next_id)
        self.device(name, kernel_at, kernel_dur, self.next_id, **args)

    def write(self, path):
        document = {"schemaVersion": 1, "deviceProperties": self.properties, **self.members, "traceEvents": self.events}
        path.write_text(json.dumps(document))
        return path


def steady(
    busy=0.97, steps=6, step=20000, kernels=40, name="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
):
    """Kernels that follow each other for `busy` of each step, launched well ahead by a host with time to spare."""
    p = Program()
    each = step * busy / kernels
    for i in range(steps):
        at = i * step
        p.step(i + 1, at, step)
        for k in range(kernels):
            p.launch(name, at + 10 + k * 20, at + 1000 + k * each, each - 1, op="aten::mm")
    return p


def launch_bound(gap=15, kernel=5, steps=6, kernels=400):
    """Each kernel is launched when the one before has long ended."""
    p, step = Program(), kernels * (gap + kernel)
    for i in range(steps):
        p.step(i + 1, i * step, step)
        for k in range(kernels):
            at = i * step + k * (gap + kernel)
            p.host("aten::add", at, gap + kernel - 1)
            p.launch("vectorized_elementwise_kernel", at + 8, at + gap, kernel)
    return p


def exposed_collective(exposed=8000, steps=6, step=20000, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"):
    """Computing until step - exposed, then an all-reduce of 8 ms that begins as late as it is exposed."""
    p = Program()
    for i in range(steps):
        at, computing = i * step, step - exposed
        p.step(i + 1, at, step)
        for k in range(20):
            p.launch(
                "sm80_xmma_gemm_bf16",
                at + 10 + k * 20,
                at + 500 + k * (computing - 500) / 20,
                (computing - 500) / 20 - 1,
            )
        p.launch(name, at + 900, at + step - 8000, 7990, stream=COMM_STREAM)
    return p


def waits_in(call, share=0.3, steps=6, step=20000, cat="cuda_runtime"):
    """The host is inside `call` for a share of each step while the device has nothing to do."""
    p = Program()
    for i in range(steps):
        at, busy = i * step, step * (1 - share)
        p.step(i + 1, at, step)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 20, at + 500 + k * busy / 20, busy / 20 - 1, op="aten::mm")
        p.host(call, at + 500 + busy, step * share - 600, cat)
    return p


def graph_replay(gap=40, steps=6, kernels=300, kernel=60):
    """One call replays all kernels of a step; they follow each other with pauses."""
    p, step = Program(), kernels * (gap + kernel)
    for i in range(steps):
        at = i * step
        p.step(i + 1, at, step)
        p.next_id += 1
        p.host("cudaGraphLaunch", at + 10, 20, "cuda_runtime", correlation=p.next_id)
        for k in range(kernels):
            p.device("triton_poi_fused_add_0", at + 50 + k * (gap + kernel), kernel, p.next_id)
    return p


def outlier(steps=10, long_step=200000):
    """Steps of 4 ms that keep the device busy, and one in which the host waits for 196 ms."""
    p, at = Program(), 0
    for i in range(steps):
        dur = long_step if i == 5 else 4000
        p.step(i + 1, at, dur)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 10, at + 300 + k * 180, 179, op="aten::mm")
        if dur > 4000:
            p.host("cudaStreamSynchronize", at + 3950, dur - 4000, "cuda_runtime")
        at += dur
    return p


def warm_up(load=400000, passes=30):
    """No steps; the first launches load code for 0.4 s, then the device is busy."""
    p, at = Program(), 0
    p.launch("sm80_xmma_gemm_bf16", at, at + 10, 100, op="aten::mm")
    p.launch("first_of_its_kind", 200, 200 + load, 100, call_dur=load - 50, op="aten::sort")
    at = load + 400
    for _ in range(passes):
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + k * 10, at + 200 + k * 100, 99, op="aten::mm")
        at += 2000
    return p


def labels(steps=6):
    """The steady program with a label around everything, which ends on the host long before the work on the device."""
    p = steady(steps=steps)
    for i in range(steps):
        p.host("forward", i * 20000 + 5, 900, "user_annotation")
    return p


def recompiles(steps=8, every=1, dur=6000):
    """torch.compile compiles for `dur` in every k-th step, while the device waits."""
    p, step = Program(), 20000
    for i in range(steps):
        at, busy = i * step, 20000 - dur if i % every == 0 else 20000
        p.step(i + 1, at, step)
        if i % every == 0:
            p.host("entire_frame_compile (dynamo_timed)", at + 10, dur - 20)
        begin = at + step - busy
        for k in range(20):
            p.launch(
                "triton_poi_fused_0", begin + 10 + k * 20, begin + 450 + k * (busy - 500) / 20, (busy - 500) / 20 - 1
            )
    return p


def plain_precision(kernel, steps=6):
    return steady(steps=steps, name=kernel)


def with_occupancy(kernel, pct, busy=0.97, steps=6):
    p = steady(busy=busy, steps=steps, name=kernel)
    for e in p.events:
        if e["cat"] == "kernel":
            e["args"]["est. achieved occupancy %"] = pct
    return p


def toy(steps=2):
    """Seven kernels a step that take a hundredth of it."""
    return steady(busy=0.01, steps=steps, kernels=7)


# ---- the second half: written after the rules were frozen ----


def loader_wait(wait=8000, steps=6, step=20000, name="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
    """The device works for the rest of the step; the loop waits for a batch first."""
    p = Program()
    for i in range(steps):
        at, busy = i * step, step - wait
        p.step(i + 1, at, step)
        p.host(name, at + 10, wait - 20, "user_annotation")
        for k in range(20):
            p.launch(
                "sm80_xmma_gemm_bf16", at + wait + k * 20, at + wait + 10 + k * (busy - 20) / 20, (busy - 20) / 20 - 1
            )
    return p


def stream_waits(pause=400, steps=6, step=20000, kernels=20):
    """All kernels are queued at the beginning of a step; the stream waits before each for an event."""
    p = Program()
    for i in range(steps):
        at = i * step
        p.step(i + 1, at, step)
        for k in range(kernels):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 10, at + 300 + k * 980, 980 - pause)
    return p


def slow_first_steps(slow=2, steps=10, factor=10):
    """The first steps take ten times as long, with the device waiting in Python; the others are steady."""
    p, at = Program(), 0
    for i in range(steps):
        dur = 4000 * factor if i < slow else 4000
        p.step(i + 1, at, dur)
        for k in range(20):
            begin = at + dur - 3900
            p.launch("sm80_xmma_gemm_bf16", begin + k * 10, begin + 100 + k * 190, 189, op="aten::mm")
        at += dur
    return p


def pipeline_bubble(bubble=8000, steps=6, step=20000):
    """The device waits for the stage before it inside a receiving kernel."""
    p = Program()
    for i in range(steps):
        at, busy = i * step, step - bubble
        p.step(i + 1, at, step)
        p.launch("ncclDevKernel_SendRecv", at + 10, at + 50, bubble - 60, stream=COMM_STREAM)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 20 + k * 10, at + bubble + k * busy / 20, busy / 20 - 1)
    return p


def busy_copies(share=0.5, steps=6, step=20000, name="Memcpy HtoD (Pageable -> Device)"):
    """The device copies for a share of the step, and computes for the rest; the host waits in the copy call."""
    p = Program()
    for i in range(steps):
        at, copying = i * step, step * share
        p.step(i + 1, at, step)
        p.launch(name, at + 5, at + 10, copying - 20, call="cudaMemcpyAsync", call_dur=copying - 10, cat="gpu_memcpy",
                 bytes=80_000_000)  # fmt: skip
        busy = step - copying
        for k in range(20):
            begin = at + copying + k * (busy - 100) / 20
            p.launch("sm80_xmma_gemm_bf16", at + copying + 10 + k * 5, begin + 50, (busy - 100) / 20 - 1)
    return p


def serving(requests=20, gap=30000, busy=10000):
    """Requests without steps, with pauses between them in which nothing is recorded."""
    p = Program()
    for i in range(requests):
        at = i * (gap + busy)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + k * 10, at + 100 + k * busy / 20, busy / 20 - 1, op="aten::mm")
    return p


def two_streams(steps=6, step=20000):
    """Two streams take turns without a pause: each is idle half of the time, the device is not."""
    p = Program()
    for i in range(steps):
        at = i * step
        p.step(i + 1, at, step)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 10, at + 300 + k * 980, 979, stream=STREAM + k % 2)
    return p


def python_gap(share=0.4, steps=6, step=20000, seen=None):
    """The host is in Python between launches, in a function of the program, while the device waits; seen: what samples
    of its stack say it does there (a word, a stack), where functions are not recorded."""
    p = Program()
    for i in range(steps):
        at, busy = i * step, step * (1 - share)
        p.step(i + 1, at, step)
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 10, at + 300 + k * (busy - 300) / 20, (busy - 300) / 20 - 1)
        if seen:
            p.host(seen[0], at + busy + 100, step * share - 300, "python_sample", SAMPLER,
                   **{"Call stack": seen[1], "Thread CPU us": 0})  # fmt: skip
        else:
            p.host("train.py(31): metrics", at + busy, step * share - 100, "python_function", **{"Python id": i})
    return p


def reads(op="aten::item", inner=(), call="cudaStreamSynchronize", stack="train.py(40): train", busy=0.6, steps=6,
          step=20000):  # fmt: skip
    """The host waits for the kernels of a step in one call, and then computes until the next step: the device stands
    still from the end of the copy that was waited for to the next step's first kernel."""
    p = Program()
    for i in range(steps):
        at, until = i * step, i * step + 300 + step * busy
        p.step(i + 1, at, step)
        each = (until - at - 300) / 20
        for k in range(20):
            p.launch("sm80_xmma_gemm_bf16", at + 10 + k * 10, at + 300 + k * each, each, op="aten::mm")
        if op:
            for level, name in enumerate((op, *inner)):
                p.host(name, at + 500 + level, until + 100 - at - 500 - 2 * level, **{"Call stack": stack})
        p.next_id += 1
        p.host("cudaMemcpyAsync", at + 510, 10, "cuda_runtime", correlation=p.next_id)
        p.device("Memcpy DtoH (Device -> Pinned)", until, 10, p.next_id, cat="gpu_memcpy")
        p.host(call, at + 530, until + 20 - at - 530, "cuda_runtime", **{"Call stack": stack})
    return p


def norms_of_each_layer(layers=24, steps=6):
    """Each layer's norm is read in one line: the host waits for a kernel of 100 us, and the next comes 100 us later."""
    p = Program()
    step = layers * 200
    for i in range(steps):
        p.step(i + 1, i * step, step)
        for k in range(layers):
            at = i * step + k * 200
            p.launch("reduce_kernel", at + 90, at + 100, 100, op="aten::norm")
            stack = {"Call stack": "train.py(11): norms;train.py(40): train"}
            p.host("aten::item", at + 98, 104, **stack)
            p.next_id += 1
            p.host("cudaStreamSynchronize", at + 99, 102, "cuda_runtime", **stack)
    return p


def two_lines_that_read(steps=6):
    """In a step of 5 ms eight values are read in one line, the device standing still for 100 us behind each, and one in
    another line, with 400 us behind it."""
    p = Program()
    for i in range(steps):
        at = i * 5000
        p.step(i + 1, at, 5000)
        for line, gap in [(11, 100)] * 8 + [(30, 400)]:
            p.launch("reduce_kernel", at + 2, at + 10, 390, op="aten::max")
            stack = {"Call stack": f"train.py({line}): train"}
            p.host("aten::item", at + 8, 394, **stack)
            p.next_id += 1
            p.host("cudaStreamSynchronize", at + 9, 392, "cuda_runtime", **stack)
            at += 400 + gap
    return p


def vendor_device(busy=0.5, steps=6, step=20000):
    """A device whose work has no categories but one: computing for a part of each step, then 1 ms of copies."""
    p = Program()
    for i in range(steps):
        at = i * step
        p.step(i + 1, at, step)
        p.host("aten::linear", at + 5, 100)
        for name, work_at, dur in (("merge", at + 200, step * busy), ("dma_request", at + 200 + step * busy, 1000)):
            p.next_id += 1
            p.host("mtiaLaunch", at + 10, 5, "mtia_runtime", correlation=p.next_id)
            p.device(name, work_at, dur, p.next_id, cat="mtia_ccp_events")
        p.host("train.py(31): metrics", at + 200 + step * busy + 1000, step * (1 - busy) - 1300, "python_function")
    return p


def products_on_a_cpu(of_step=1.0, steps=6, step=10000):
    """A product of 2 x 1000^3 operations in each step, on a CPU that does 1e12 a second."""
    p = Program()
    p.properties, p.members = [], {"cpuPeak": {"fp32_flop_per_s": 1e12, "bytes_per_s": 1e11, "threads": 4}}
    for i in range(steps):
        p.step(i + 1, i * step, step)
        p.host("aten::mm", i * step, step * of_step,
               **{"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["float", "float"]})  # fmt: skip
    return p
