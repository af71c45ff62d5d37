#!/usr/bin/env python3
"""Write a large Kineto-style trace of a made-up training loop: operators with shapes, Python frames, launches, kernels,
memory.

    grow.py OUT.json --size-mb 500 [--seed 1]

The text is laid out as Kineto lays it out (one member a line group, four blanks); sizes of the mix follow real traces:
about half of the events are Python frames and flows, 350-450 bytes an event. Times are exact to the nanosecond.
"""

import argparse
import random

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "Bench Device", "totalGlobalMem": 85899345920, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32, "numSms": 108}
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1767189312000000000,
  "traceEvents": [
  {
    "ph": "M", "ts": 0, "pid": 2201, "tid": 0, "name": "process_name", "args": {"name": "python train.py"}
  },
  {
    "ph": "M", "ts": 0, "pid": 2201, "tid": 2201, "name": "thread_name", "args": {"name": "thread 2201 (python)"}
  }"""
TAIL = """
  ],
  "traceName": "grown.json"
}
"""
SLICE = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d,
    "ts": %s, "dur": %d.%03d,
    "args": {
      %s
    }
  }"""
OPS = [
    "aten::conv2d",
    "aten::batch_norm",
    "aten::relu_",
    "aten::linear",
    "aten::addmm",
    "aten::add_",
    "aten::mul",
    "aten::layer_norm",
    "aten::scaled_dot_product_attention",
    "aten::cross_entropy_loss",
    "aten::to",
    "aten::copy_",
]
KERNELS = [
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1>(cudnn::bn_fw_tr_1C11_args<float, float>)",
    "ampere_sgemm_128x64_tn",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
]
FRAMES = [
    "torch/nn/modules/module.py(1527): _call_impl",
    "train.py(%d): train_step",
    "torch/nn/modules/conv.py(456): forward",
    "nn.Module: Conv2d_%d",
    "torch/nn/functional.py(2478): batch_norm",
    "<built-in method conv2d of type object at 0x7f3b8c>",
]


def stamp(ns):
    return "%d.%03d" % divmod(ns, 1000)


class Loop:
    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.now, self.device, self.ident, self.frame, self.step, self.live = 4_000_000_000, 4_000_000_000, 1, 1, 0, 0

    def slice(self, cat, name, pid, tid, start, dur, args):
        return SLICE % (cat, name, pid, tid, stamp(start), dur // 1000, dur % 1000, args)

    def launch(self, out, start, op):
        """A host call, the two ends of its flow, and the kernel."""
        corr, dur = self.ident, self.rnd.randint(3000, 9000)
        self.ident += 1
        begin = max(self.device, start + dur + 2000) + self.rnd.randint(0, 900)
        length = self.rnd.randint(2000, 60000)
        self.device = begin + length
        out.append(
            self.slice(
                "cuda_runtime",
                "cudaLaunchKernel",
                2201,
                2201,
                start,
                dur,
                '"External id": %d,\n      "cbid": 211, "correlation": %d' % (op, corr),
            )
        )
        out.append(
            '  {\n    "ph": "s", "id": %d, "pid": 2201, "tid": 2201, "ts": %s,\n    "cat": "ac2g", "name": "ac2g"\n  }'
            % (corr, stamp(start))
        )
        out.append(
            self.slice(
                "kernel",
                self.rnd.choice(KERNELS),
                0,
                7,
                begin,
                length,
                (
                    '"External id": %d,\n      "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": %d,\n      "registers per thread": 64,\n'
                    '      "shared memory": 0,\n      "blocks per SM": 4.740741,\n      "warps per SM": 18.962963,\n      "grid": [512, 1, 1],\n'
                    '      "block": [128, 1, 1],\n      "est. achieved occupancy %%": 30'
                )
                % (op, corr),
            )
        )
        out.append(
            '  {\n    "ph": "f", "id": %d, "pid": 0, "tid": 7, "ts": %s,\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }'
            % (corr, stamp(begin))
        )
        return start + dur

    def operator(self, out, depth):
        """One operator below `depth` Python frames; returns when it ends."""
        frames, start = [], self.now
        for _k in range(depth):
            name = self.rnd.choice(FRAMES)
            frames.append((name % self.rnd.randint(1, 60) if "%" in name else name, start, self.frame))
            self.frame += 1
            start += self.rnd.randint(200, 900)
        op, begin = self.ident, start
        self.ident += 1
        position = len(out)
        now = begin + self.rnd.randint(1500, 5000)
        for _ in range(self.rnd.choice((1, 1, 2))):
            child, child_begin = self.ident, now
            self.ident += 1
            at = len(out)
            now = self.launch(out, now + 1200, child) + 800
            out.insert(
                at,
                self.slice(
                    "cpu_op",
                    "aten::_" + self.rnd.choice(OPS)[6:],
                    2201,
                    2201,
                    child_begin,
                    now - child_begin,
                    '"External id": %d, "Record function id": 0, "Ev Idx": %d' % (child, child),
                ),
            )
        if self.rnd.random() < 0.3:
            size = self.rnd.choice((512, 4096, 1 << 20))
            self.live += size
            out.append(
                '  {\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n    "pid": 2201, "tid": 2201,\n    "ts": %s,\n'
                '    "args": {\n      "Total Reserved": 2097152000, "Total Allocated": %d, "Bytes": %d, "Addr": %d, "Device Id": 0, "Device Type": 1, "Ev Idx": %d\n    }\n  }'
                % (stamp(now), self.live, size, 139000000000000 + op * 512, op)
            )
        now += 700
        out.insert(
            position,
            self.slice(
                "cpu_op",
                self.rnd.choice(OPS),
                2201,
                2201,
                begin,
                now - begin,
                (
                    '"External id": %d,\n      "Record function id": 0, "Sequence number": %d, "Fwd thread id": 0,\n'
                    '      "Concrete Inputs": ["", "", "", "[1, 1]", "[0, 0]"], "Input type": ["float", "float", "", "ScalarList"],\n'
                    '      "Input Strides": [[200704, 3136, 56, 1], [576, 9, 3, 1], []],\n      "Input Dims": [[64, 64, 56, 56], [64, 64, 3, 3], []], "Ev Idx": %d'
                )
                % (op, op, op),
            ),
        )
        for _k, (name, at, ident) in enumerate(reversed(frames)):
            now += self.rnd.randint(100, 500)
            out.insert(
                position,
                self.slice(
                    "python_function",
                    name,
                    2201,
                    2201,
                    at,
                    now - at,
                    '"Python parent id": %d, "Python id": %d, "Ev Idx": %d' % (ident - 1, ident, ident),
                ),
            )
        self.now = now + self.rnd.randint(300, 3000)

    def next_step(self, operators=300):
        out, start = [], self.now
        self.now += 1000
        for _ in range(operators):
            self.operator(out, self.rnd.randint(1, 6))
        end = self.now
        out.insert(
            0,
            self.slice(
                "user_annotation",
                "ProfilerStep#%d" % (self.step + 5),
                2201,
                2201,
                start,
                end - start,
                '"External id": %d, "Record function id": 0, "Ev Idx": 0' % self.ident,
            ),
        )
        self.ident += 1
        self.step += 1
        return out


def write(path, size, seed=1):
    """Whole steps until the file has at least `size` bytes."""
    loop, done = Loop(seed), len(HEAD)
    with open(path, "w", encoding="ascii", newline="\n") as f:
        f.write(HEAD)
        while done < size:
            text = ",\n" + ",\n".join(loop.next_step())
            f.write(text)
            done += len(text)
        f.write(TAIL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--size-mb", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    write(args.out, int(args.size_mb * 1e6), args.seed)


if __name__ == "__main__":
    main()
