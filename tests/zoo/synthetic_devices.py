"""Programs on a device: for each class of finding one with a known flaw and one that only looks like it.

They were written before the rules, by an author without knowledge of them. Times are microseconds; every duration has a
seeded jitter of 1 to 3 %. `CASES` is the list; `make()` of a `Case` gives a Program (synthetic.py), or one of each
rank.
"""

import contextlib
import dataclasses
import random

from synthetic import Program

H100, A100, B200 = (
    ("NVIDIA H100 80GB HBM3", (9, 0), 132),
    ("NVIDIA A100-SXM4-80GB", (8, 0), 108),
    ("NVIDIA B200", (10, 0), 148),
)
A40, V100 = ("NVIDIA A40", (8, 6), 84), ("Tesla V100-SXM2-32GB", (7, 0), 80)


@dataclasses.dataclass
class Case:
    name: str
    cls: str  # the class; the near miss of a class has the same
    make: object  # gives a Program, or a list of them (the ranks of a job)
    planted: str  # what is there, with its arithmetic
    near: bool = False
    cost_ms: float | None = None  # a step (of the recording, where there are no steps)
    saving_ms: tuple | None = None  # the least and the most that is honest; None: none may be stated, or it is open
    words: tuple = ()  # how an expert names the cause: one of these, or a synonym
    where: tuple = ()  # what must be named as the place: one of these
    where_not: tuple = ()  # what must not be named as the place
    not_say: tuple = ()  # in no finding (cause, place, evidence, advice), whatever its cause, case ignored; in the notes too where it begins with "note:"
    absent: tuple = ()  # causes, in words, that must not be among the findings
    advice: tuple = ()  # one of these words must be in the expected finding's advice
    least: str | None = None  # least severity of the expected finding; None: it need not be there
    most: str | None = "high"  # highest severity of the expected finding; None: it must not be there
    no_high: bool = False  # no finding at all may be high
    steps: int = 6  # 0: the recording has none
    sums: dict = dataclasses.field(default_factory=dict)  # part of a device name -> ms a step (sum of durations)
    notes: tuple = ()  # what the notes must say, in words


CASES = []


def adds_to(cases):
    """A decorator for functions that make a program: appends a Case of it."""

    def case(cls, **about):
        def register(make):
            cases.append(Case(name=make.__name__, cls=cls, make=make, **about))
            return make

        return register

    return case


case = adds_to(CASES)


IN_FLIGHT = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8>(Params)"


class Rig(Program):
    """A host that launches into streams which work in order: a kernel begins when it was launched and the one before
    on its stream has ended. `now` is the host's clock, `free` the end of each stream's work."""

    def __init__(self, device=H100, seed=1, jitter=0.02, tid=10, external=True):
        super().__init__(device[0], device[1])
        self.properties[0].update(numSms=device[2], warpSize=32, maxThreadsPerMultiprocessor=2048)
        self.rnd, self.jitter, self.tid, self.external = random.Random(seed), jitter, tid, external
        self.now, self.free, self.ids, self.scale = 1000.0, {}, 4096, 1.0

    def write(self, path):
        for e in self.events:
            e["ts"], e["dur"] = round(e["ts"], 3), round(e["dur"], 3)
        return super().write(path)

    def j(self, us):
        return round(us * self.scale * (1 + self.rnd.uniform(-self.jitter, self.jitter)), 3)

    def end(self):
        return max(self.free.values(), default=0)

    def args(self, **more):
        return {"External id": self.ids, **more} if self.external else more

    def run(self, name, dur, op=None, stream=7, host=9, call="cudaLaunchKernel", cat="kernel", after=0, op_args=None,
            call_cat=None, tid=None, **args):  # fmt: skip
        """One launch inside one operator (or none); gives (begin, end) of the work on the device."""
        self.ids, self.next_id, at, tid = self.ids + 1, self.next_id + 1, self.now, tid or self.tid
        host = self.j(host)
        if op:
            self.host(op, at, host - 0.5, tid=tid, **self.args(**(op_args or {})))
        called = at + host * 0.4
        self.host(call, called, host * 0.45, call_cat or ("cuda_driver" if call.startswith("cuL") else "cuda_runtime"), tid,
                  **self.args(correlation=self.next_id, cbid=211))  # fmt: skip
        begin = max(called + host * 0.45 + 2, self.free.get(stream, 0) + 1, after)
        dur = self.j(dur)
        if cat == "kernel":
            args = {"grid": [2048, 1, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0, **args}
        self.device(name, begin, dur, self.next_id, stream, cat, **self.args(context=1, **args))
        self.free[stream] = begin + dur
        self.now = at + host
        return begin, begin + dur

    def graph(self, kernels, stream=7, pause=0.8, call="cudaGraphLaunch", call_dur=45):
        """One launch of all: kernels are (name, us)."""
        self.ids, self.next_id = self.ids + 1, self.next_id + 1
        self.host(call, self.now, self.j(call_dur), "cuda_runtime", self.tid, correlation=self.next_id, cbid=311)
        at = max(self.now + call_dur + 5, self.free.get(stream, 0) + 2)
        for k, (name, dur) in enumerate(kernels):
            dur = self.j(dur)
            self.device(name, at, dur, self.next_id, stream, context=1, grid=[512, 2, 1], block=[128, 1, 1],
                        **{"graph id": 3, "graph node id": 30 + k})  # fmt: skip
            at += dur + pause
        self.free[stream] = at - pause
        self.now += call_dur + 3

    def call(self, name, dur, cat="cuda_runtime", **args):
        self.next_id += 1
        self.host(name, self.now, dur, cat, self.tid, **self.args(correlation=self.next_id, **args))
        self.now += dur

    def sync(self, name="cudaStreamSynchronize"):
        self.call(name, max(self.end() - self.now, 0) + 4)

    @contextlib.contextmanager
    def span(self, name, cat="user_annotation", **args):
        at = self.now
        self.ids += 1
        own = self.args(**args)
        yield
        self.host(name, at, self.now - at, cat, self.tid, **own)
        self.now += 0.5

    def spend(self, us):
        self.now += self.j(us)

    def steps(self, count=6, lead=900, first=12):
        """The steps; the host stays at most `lead` ahead of the end of the device's work."""
        scales = [1 + 0.03 * (i + 0.5) / count - 0.015 for i in range(count)]  # 3 % between the steps, none on average
        self.rnd.shuffle(scales)
        if lead >= 300:  # what was in the queue when the recording began: its launches are not recorded
            at = self.now - 40
            for k in range(round(lead / 300)):
                self.device(IN_FLIGHT, at, 299, 1_000_000 + k, context=1, grid=[256, 1, 1], block=[256, 1, 1])
                at += 300
            self.free[7] = at
        for i in range(count):
            at, self.scale = self.now, scales[i]
            yield i
            self.now = max(self.now, self.end() - lead)
            self.step(first + i, at, self.now - at)
            self.now += 3


LN = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float)"
EW = "void at::native::vectorized_elementwise_kernel<4, at::native::{}, std::array<char*, {}ul> >(int)"
TC90 = "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_TNT"
TC80 = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize256x128x32_stage3_warpsize4x2x1_tensor16x8x16_kernel"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x128x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"


# ---- 1. precision ----


@case("precision-graph", planted="a replayed graph: 36 FP32 products without tensor cores of 300 us = 10.8 ms of a step of 12; no operators",
      cost_ms=10.8, saving_ms=(5.0, 9.5), words=("tensor cores unused", "FP32 products", "TF32", "mixed precision"), where=("ffma", "gemm_f32f32"),
      least="medium", steps=8, sums={"ffma": 10.8})  # fmt: skip
def graph_of_plain_products():
    p = Rig(H100, 11)
    for _ in p.steps(8):
        p.graph([(FFMA, 300), (LN, 20), (FFMA, 300), (EW.format("GeluCUDAKernelImpl", 2), 40)] * 18)
    return p


@case("precision-graph", near=True, planted="a replayed graph of MXFP4 and MXFP8 products (block scaled) on a B200: 11 ms of 12 are tensor-core work",
      absent=("tensor cores unused",), not_say=("TF32", "autocast"), most=None, no_high=True, steps=8,
      sums={"bstensorop": 5.6, "mxf8": 5.4})  # fmt: skip
def graph_of_mx_products():
    p = Rig(B200, 12)
    fp4 = "void cutlass::device_kernel<cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue8m0xe2m1_ue8m0xe2m1_f32_bf16_bf16_tnt_align32>(Params)"
    fp8 = "bmm_Bfloat16_MxE4m3MxE4m3_Fp32_bA32_t128x64x256_mxf8f6f4_et128x64_m256x64x32_cga2x1x1_sm100a"
    for _ in p.steps(8):
        p.graph([(fp4, 280), (fp8, 270), (LN, 25), (EW.format("SiluFunctor", 2), 20)] * 20)
    return p


@case("precision-graph", planted="no operators at all (kernels and runtime calls): 30 FP16 products by a kernel without tensor cores (hgemm, 350 us) = 10.5 ms of 12.5",
      cost_ms=10.5, saving_ms=(4.0, 9.5), words=("tensor cores unused",), where=("hgemm",), not_say=("TF32",), least="medium", steps=6,
      sums={"hgemm": 10.5})  # fmt: skip
def half_products_without_an_operator():
    p = Rig(V100, 13, external=False)
    for _ in p.steps(6):
        for _ in range(30):
            p.run("volta_hgemm_64x128_nt_simt_swz", 350)
            p.run(EW.format("AddFunctor<c10::Half>", 3), 60)
    return p


@case("precision-mixed", planted="30 FP32 products without tensor cores of 380 us = 11.4 ms and one of 450 us on tensor cores, of 13 ms",
      cost_ms=11.4, saving_ms=(5.0, 10.2), words=("tensor cores unused", "mixed precision", "TF32"), where=("aten::addmm", "simt_sgemm"), least="medium",
      sums={"simt_sgemm": 11.4})  # fmt: skip
def one_kernel_on_tensor_cores():
    p = Rig(A100, 14)
    fp32 = {"Input type": ["float", "float", "float"], "Input Dims": [[1024], [4096, 1024], [1024, 1024]]}
    for _ in p.steps(6):
        for _ in range(30):
            p.run(
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_tn_align1>(cutlass_80_simt_sgemm_256x128_8x4_tn_align1::Params)",
                380,
                "aten::addmm",
                op_args=fp32,
            )
            p.run(EW.format("launch_clamp_scalar", 2), 35, "aten::clamp_min")
        p.run(TC80, 450, "aten::mm")
    return p


@case("precision-mixed", near=True, planted="32 products on tensor cores of 380 us = 12.2 ms, and two FP32 ones of 120 us without (a router): 0.24 ms of 13.5, 1.8 %",
      absent=("tensor cores unused",), most=None, no_high=True, sums={"sgemm_32x32x32": 0.24, "tst_": 12.16})  # fmt: skip
def small_router_in_fp32():
    p = Rig(H100, 15)
    for _ in p.steps(6):
        for k in range(32):
            p.run(TC90, 380, "aten::linear")
            p.run(LN, 30, "aten::native_layer_norm")
            if k in (7, 23):
                p.run("sgemm_32x32x32_NT_vec", 120, "aten::mm", op_args={"Input type": ["float", "float"]})
    return p


@case("precision-wide", planted="40 FP64 products of 260 us = 10.4 ms of 11.5: double precision is the cost, TF32 and autocast do not apply",
      cost_ms=10.4, words=("double precision", "FP64"), where=("dgemm", "aten::matmul", "aten::mm"), not_say=("TF32", "autocast", "bfloat16", "bf16"), absent=("tensor cores unused", "mixed precision"), least=None, most="medium",
      steps=7, sums={"dgemm": 10.4})  # fmt: skip
def double_precision():
    p = Rig(A40, 16)
    for _ in p.steps(7):
        for _ in range(40):
            p.run(
                "void cutlass::Kernel2<cutlass_80_simt_dgemm_64x128_8x3_nt_align1>(Params)",
                260,
                "aten::mm",
                op_args={"Input type": ["double", "double"], "Input Dims": [[1536, 1536], [1536, 1536]]},
            )
            p.run(EW.format("CUDAFunctor_add<double>", 3), 25, "aten::add")
    return p


@case("precision-wide", near=True, planted="complex products (cgemm, 24 x 400 us = 9.6 ms of 10.6), with operators and complex types",
      not_say=("TF32", "autocast", "bfloat16"), absent=("tensor cores unused", "mixed precision"), most=None, no_high=True, sums={"cgemm": 9.6})  # fmt: skip
def complex_products():
    p = Rig(A100, 17)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(
                "ampere_cgemm_32x64_nn_ldg",
                400,
                "aten::bmm",
                op_args={"Input type": ["c10::complex<float>", "c10::complex<float>"]},
            )
            p.run(EW.format("MulFunctor<c10::complex<float> >", 3), 40, "aten::mul")
    return p


@case("convolutions", planted="48 FP32 convolutions without tensor cores of 220 us = 10.6 ms of 13", cost_ms=10.6, saving_ms=(4.0, 9.6),
      words=("tensor cores unused", "convolutions in FP32"), where=("convolve_sgemm", "cudnn_convolution", "aten::convolution"), least="medium",
      advice=("cudnn", "channels_last"), sums={"convolve": 10.56})  # fmt: skip
def convolutions_in_fp32():
    """The advice must name cuDNN: torch.backends.cudnn.allow_tf32 (or autocast, channels_last), and not only matmul."""
    p = Rig(A40, 18)
    for _ in p.steps(6):
        for _ in range(48):
            p.run(
                "void precomputed_convolve_sgemm<float, 1024, 5, 5, 4, 3, 3, 1, false>(int, int, int)",
                220,
                "aten::cudnn_convolution",
                op_args={"Input type": ["float", "float"]},
            )
            p.run(
                "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 14>(Params)", 50, "aten::cudnn_batch_norm"
            )
    return p


@case("convolutions", near=True, planted="48 convolutions on tensor cores in TF32 (float types at the operator), 10.6 ms of 13",
      absent=("tensor cores unused",), most=None, no_high=True, sums={"tf32f32": 10.56})  # fmt: skip
def convolutions_in_tf32():
    p = Rig(A100, 19)
    for _ in p.steps(6):
        for _ in range(48):
            p.run(
                "sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x256x32_stage4_warpsize1x4x1_g1_tensor16x8x8_kernel_cudnn",
                220,
                "aten::convolution_backward",
                op_args={"Input type": ["float", "float"]},
            )
            p.run(
                "void cudnn::bn_bw_1C11_singleread<float, 1024, true, 1, 2, 20>(Params)",
                50,
                "aten::cudnn_batch_norm_backward",
            )
    return p


@case("recording-without-steps", planted="no steps: 14 FP32 products without tensor cores of 1.9 ms = 26.6 ms of 28", cost_ms=26.6, saving_ms=(12.0, 24.0),
      words=("tensor cores unused",), where=("sgemm",), least="medium", steps=0, sums={"sgemm": 26.6})  # fmt: skip
def fourteen_plain_kernels():
    p = Rig(A100, 20)
    for _ in range(14):
        p.run("ampere_sgemm_32x32_sliced1x4_tt", 1900, "aten::mm", op_args={"Input type": ["float", "float"]})
        p.run(EW.format("reciprocal_kernel", 2), 60, "aten::reciprocal")
    return p


@case("recording-without-steps", near=True, planted="no steps, six kernels in all (four FP32 products of 1.9 ms): too few to judge",
      absent=("tensor cores unused",), most=None, no_high=True, steps=0, sums={"sgemm": 7.6})  # fmt: skip
def six_kernels():
    p = Rig(A100, 21)
    for k in range(4):
        p.run("ampere_sgemm_32x32_sliced1x4_tt", 1900, "aten::mm", op_args={"Input type": ["float", "float"]})
        if k % 2:
            p.run(EW.format("reciprocal_kernel", 2), 60, "aten::reciprocal")
    return p


# ---- 2. kernel classes where the device bounds the step ----

CHAIN = (  # six in a row, 330 us, the longest 90
    ("aten::mul", EW.format("BUnaryFunctor<c10::BFloat16, MulFunctor>", 2), 60),
    ("aten::gelu", EW.format("GeluCUDAKernelImpl<BFloat16>", 2), 90),
    ("aten::native_dropout", "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float, 1, 4, bool>(Params)", 55),
    ("aten::add", EW.format("CUDAFunctor_add<BFloat16>", 3), 60),
    ("aten::cat", "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<OpaqueType<2u>, unsigned int, 3, 64, 64, 16, 8>(char*)", 35),
    ("aten::sum", "void at::native::reduce_kernel<256, 2, at::native::ReduceOp<BFloat16, func_wrapper_t<BFloat16, sum_functor>, unsigned int, float, 4, 4> >(ReduceOp)", 30),
)  # fmt: skip


@case("runs-of-small-kernels", planted="after each of 24 products of 310 us six element-wise, concatenation and reduction kernels in a row, 330 us: 7.92 ms of 15.5; all but the longest of each run: 24 x 240 us = 5.76 ms",
      cost_ms=7.92, saving_ms=(4.0, 5.9), words=("fuse", "element-wise kernels in a row", "torch.compile"), where=("aten::gelu", "aten::mul", "elementwise"), least="medium",
      sums={"nvjet": 7.44, "GeluCUDA": 2.16})  # fmt: skip
def element_wise_runs():
    p = Rig(H100, 22)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(TC90, 310, "aten::mm")
            for op, name, dur in CHAIN:
                p.run(name, dur, op)
    return p


@case("runs-of-small-kernels", near=True, planted="the same element-wise kernels, but each stands between two products (144 products of 52 us): no two in a row, nothing to fuse",
      absent=("fuse element-wise kernels in a row",), most=None, no_high=True, sums={"nvjet": 7.488, "GeluCUDA": 2.16})  # fmt: skip
def element_wise_alone():
    p = Rig(H100, 23)
    for _ in p.steps(6):
        for _ in range(24):
            for op, name, dur in CHAIN:
                p.run(TC90, 52, "aten::mm")
                p.run(name, dur, op)
    return p


@case("layout-transposes", planted="around each of 40 convolutions (240 us) a transposition to NHWC (75) and back (65): 5.6 of 15.2 ms", cost_ms=5.6, saving_ms=(3.5, 5.7),
      words=("channels_last", "layout", "transposes"), where=("nchwToNhwc", "nhwcToNchw"), least="medium", sums={"nchwToNhwc": 3.0, "nhwcToNchw": 2.6})  # fmt: skip
def transposes_around_convolutions():
    p = Rig(A100, 24)
    for _ in p.steps(6):
        for _ in range(40):
            p.run(
                "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, true, false, (cudnnKernelDataType_t)9>(Params)",
                75,
                "aten::cudnn_convolution",
            )
            p.run(
                "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x256x32_stage3_warpsize2x4x1_g1_tensor16x8x16_kernel_cudnn",
                240,
            )
            p.run(
                "void cudnn::ops::nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, true, false, (cudnnKernelDataType_t)9>(Params)",
                65,
            )
    return p


@case("layout-transposes", near=True, planted="one transposition at each end of a network of 60 convolutions: 0.14 of 15 ms, 0.9 %", absent=("layout", "channels_last", "transposes"),
      most=None, no_high=True, sums={"ToN": 0.14})  # fmt: skip
def transposes_at_the_ends():
    p = Rig(A100, 25)
    for _ in p.steps(6):
        p.run(
            "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, true, false, (cudnnKernelDataType_t)9>(Params)",
            75,
            "aten::contiguous",
        )
        for _ in range(60):
            p.run(
                "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x256x32_stage3_warpsize2x4x1_g1_tensor16x8x16_kernel_cudnn",
                245,
                "aten::cudnn_convolution",
            )
        p.run(
            "void cudnn::ops::nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, true, false, (cudnnKernelDataType_t)9>(Params)",
            65,
            "aten::contiguous",
        )
    return p


def _around_a_graph(seed, moved, us):
    p = Rig(H100, seed)
    for _ in p.steps(6):
        for _ in range(3):
            p.run(
                "Memcpy DtoD (Device -> Device)",
                us,
                "aten::copy_",
                call="cudaMemcpyAsync",
                cat="gpu_memcpy",
                bytes=moved,
                **{"memory bandwidth (GB/s)": moved / us / 1000},
            )
        p.graph([(TC90, 180), (LN, 15)] * 45)
        p.run(
            "Memcpy DtoD (Device -> Device)",
            us,
            "aten::clone",
            call="cudaMemcpyAsync",
            cat="gpu_memcpy",
            bytes=moved,
            **{"memory bandwidth (GB/s)": moved / us / 1000},
        )
    return p


@case("device-copies", planted="three copies on the device into the static inputs of a graph and one of its output, 1.9 GB and 1.5 ms each: 7.6 GB, 6.0 ms of 14.9", cost_ms=6.0, saving_ms=(3.0, 6.1),
      words=("copies on the device", "static inputs of the graph", "DtoD"), where=("Memcpy DtoD", "aten::copy_"), least="medium", sums={"DtoD": 6.0})  # fmt: skip
def copies_around_a_graph():
    return _around_a_graph(26, 1_900_000_000, 1500)


@case("device-copies", near=True, planted="the same four copies of 6 MB and 9 us: 0.04 of 8.9 ms", absent=("copies on the device",), most=None, no_high=True, sums={"DtoD": 0.036})  # fmt: skip
def small_copies_around_a_graph():
    return _around_a_graph(27, 6_000_000, 9)


@case("pinned-copies", planted="each batch (84 MB, pinned, non_blocking) is copied on the compute stream: 3.4 of 12.6 ms in which nothing computes", cost_ms=3.4, saving_ms=(2.4, 3.5),
      advice=("stream", "prefetch"), words=("prefetch on another stream", "exposed copy from pinned memory", "overlap the copy"), where=("Memcpy HtoD (Pinned", "aten::copy_", "aten::_to_copy"), absent=("pageable memory", "pin_memory missing"), least="medium", steps=8, sums={"HtoD": 3.4})  # fmt: skip
def pinned_copy_in_the_way():
    p = Rig(H100, 28)
    for _ in p.steps(8, lead=2500):
        p.run(
            "Memcpy HtoD (Pinned -> Device)",
            3400,
            "aten::copy_",
            call="cudaMemcpyAsync",
            cat="gpu_memcpy",
            bytes=84_000_000,
            **{"memory bandwidth (GB/s)": 24.7},
        )
        for _ in range(40):
            p.run(TC90, 200, "aten::linear")
            p.run(LN, 28, "aten::native_layer_norm")
    return p


@case("pinned-copies", near=True, planted="the same copies on a stream of their own, one batch ahead: hidden", absent=("exposed copy", "prefetch", "copy from the host"), most=None, no_high=True, steps=8, sums={"HtoD": 3.4})  # fmt: skip
def pinned_copy_ahead():
    p = Rig(H100, 29)
    for _ in p.steps(8, lead=2500):
        p.run(
            "Memcpy HtoD (Pinned -> Device)",
            3400,
            "aten::copy_",
            stream=22,
            call="cudaMemcpyAsync",
            cat="gpu_memcpy",
            bytes=84_000_000,
            after=p.end() + 300,
        )
        for _ in range(40):
            p.run(TC90, 200, "aten::linear")
            p.run(LN, 28, "aten::native_layer_norm")
    return p


@case("attention", planted="attention by the math kernel in 12 layers: two batched products (260, 240), scale 130, mask 150, softmax 210 = 990 us x 12 = 11.9 of 17.9 ms", cost_ms=11.88, saving_ms=(5.0, 10.0),
      words=("math attention", "flash attention", "scaled_dot_product_attention"), where=("_scaled_dot_product_attention_math", "softmax", "SoftMax"), least="medium", sums={"SoftMax": 2.52, "cublasLt": 6.0})  # fmt: skip
def attention_by_the_math_kernel():
    p = Rig(A100, 30)
    mm = "ampere_fp16_s1688gemm_fp16_256x64_cublasLt_splitKreduce_nn"
    for _ in p.steps(6):
        for _ in range(12):
            p.run(TC80, 480, "aten::linear")
            with (
                p.span("aten::scaled_dot_product_attention", "cpu_op"),
                p.span("aten::_scaled_dot_product_attention_math", "cpu_op"),
            ):
                p.run(EW.format("BUnaryFunctor<Half, MulFunctor>", 2), 130, "aten::mul")
                p.run(mm, 260, "aten::bmm")
                p.run(EW.format("CUDAFunctor_add<Half>", 3), 150, "aten::add")
                p.run(
                    "void (anonymous namespace)::cunn_SoftMaxForwardSmem<4, c10::Half, float, c10::Half, SoftMaxForwardEpilogue, long>(Params)",
                    210,
                    "aten::_softmax",
                )
                p.run(mm, 240, "aten::bmm")
    return p


@case("attention", near=True, planted="flash attention takes 11.9 of 17.7 ms", absent=("math attention",), not_say=("scaled_dot_product_attention instead",), most=None, no_high=True, sums={"flash_fwd": 11.88})  # fmt: skip
def attention_by_flash():
    p = Rig(A100, 31)
    for _ in p.steps(6):
        for _ in range(12):
            p.run(TC80, 480, "aten::linear")
            with (
                p.span("aten::scaled_dot_product_attention", "cpu_op"),
                p.span("aten::_scaled_dot_product_flash_attention", "cpu_op"),
            ):
                p.run(
                    "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<192, 64, 64, 4, false, false, cutlass::half_t>, false, true, false>(Flash_fwd_params)",
                    990,
                    "aten::_flash_attention_forward",
                )
    return p


def _products(seed, slow_us):
    """Six of 2 x 8192^3 = 1.0995e12 operations in 1832 us (600e12/s); one of 2 x 16384 x 1024 x 50304 = 1.688e12."""
    p = Rig(H100, seed)
    types = {"Input type": ["c10::BFloat16", "c10::BFloat16"]}
    for _ in p.steps(6):
        for _ in range(6):
            p.run(TC90, 1832, "aten::mm", op_args={"Input Dims": [[8192, 8192], [8192, 8192]], **types})
        p.run(
            "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_NNT",
            slow_us,
            "aten::mm",
            op_args={"Input Dims": [[16384, 1024], [1024, 50304]], **types},
        )
    return p


@case("slow-product", planted="one product of 1.688e12 operations in 7.4 ms (228e12 a second) beside six at 600e12, the same type: 38 %; at their rate 2.81 ms, saving 4.6 of 18.4 ms",
      cost_ms=7.4, saving_ms=(1.5, 4.7), words=("product far below the best rate",), where=("splitK_NNT", "aten::mm", "50304"), least="low", most="medium", sums={"splitK": 7.4})  # fmt: skip
def one_slow_product():
    return _products(32, 7400)


@case("slow-product", near=True, planted="the same product in 3.5 ms (482e12 a second, 80 % of the best)", absent=("product far below the best rate",), most=None, no_high=True, sums={"splitK": 3.5})  # fmt: skip
def one_product_a_little_slower():
    return _products(33, 3500)


def _decode(seed, device, us):
    """Products of one row: 8192 x 28672 weights of 2 bytes, 469.8 MB, read once."""
    p = Rig(device, seed)
    dims = {"Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[1, 8192], [8192, 28672]]}
    for _ in p.steps(8):
        for _ in range(80):
            p.run(
                "void gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 6, false>(Params)",
                us,
                "aten::mm",
                op_args=dims,
            )
    return p


@case("memory-bandwidth", planted="decoding: 80 products of one row that read 469.8 MB in 159 us, 2955 GB/s, 88 % of an H100's 3350: bound by memory, 12.7 of 12.8 ms", cost_ms=12.72, saving_ms=None,
      words=("memory-bound", "at the memory bandwidth"), where=("gemvx", "aten::mm"), absent=("tensor cores unused",), least=None, most="low", no_high=True, steps=8, sums={"gemvx": 12.72},
      notes=("bound by memory bandwidth, about 88 %, in a finding or a note, without a saving",))  # fmt: skip
def decoding_at_the_bandwidth():
    return _decode(34, H100, 159)


@case("memory-bandwidth", near=True, planted="the same on a device of which no table has an entry: nothing may be said of its bandwidth", absent=("memory-bound", "at the memory bandwidth"), not_say=("% of the memory bandwidth", "note:% of the memory bandwidth"), most=None, no_high=True, steps=8, sums={"gemvx": 12.72})  # fmt: skip
def decoding_on_an_unknown_device():
    return _decode(35, ("NVIDIA Graphics Device X1", (9, 9), 120), 159)


# ---- 3. the device waits ----


class Accelerator(Rig):
    """Work on the device has no launch: neither calls nor correlations."""

    def __init__(self, seed):
        super().__init__(("HL-325L", (0, 0), 64), seed)
        self.properties = [{"id": 0, "name": "HL-325L", "totalGlobalMem": 128 << 30}]

    def work(self, name, us, op=None, host=20):
        at = self.now
        if op:
            self.host(op, at, host - 2, tid=self.tid, **self.args())
        begin, us = max(at + host, self.free.get(3, 0) + 1), self.j(us)
        self.events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": 0,
                "tid": 3,
                "ts": begin,
                "dur": us,
                "args": {"device": 0, "stream": 3},
            }
        )
        self.free[3] = begin + us
        self.now = at + host


def _recommender(seed, hashing, work_us):
    p = Accelerator(seed)
    for _ in p.steps(10, lead=150):
        with p.span("ranker::hash_features"):
            for _ in range(8):
                with p.span("aten::bucketize", "cpu_op"):
                    p.spend(hashing / 8)
        with p.span("ranker::forward"):
            for _ in range(12):
                p.work("MME_gemm_bf16_tpc_fused", work_us, "aten::linear")
        p.now = max(p.now, p.end() - 150)
    return p


@case("idle-accelerator", planted="an accelerator whose work has no launch: in each step of 15.5 ms it stands still for about 6 while the host is in ranker::hash_features (aten::bucketize)", cost_ms=6.0, saving_ms=(3.5, 6.3),
      words=("the device waits for the host", "idle device"), where=("ranker::hash_features", "aten::bucketize"), not_say=("not in the trace", "record the host", "activities=[CPU"), least="medium", steps=10, sums={"MME": 9.6})  # fmt: skip
def accelerator_waits_for_hashing():
    return _recommender(36, 6000, 800)


@case("idle-accelerator", near=True, planted="the same where the hashing takes 0.3 ms of 10: the device is busy for 97 %", absent=("idle device", "the device waits"), most=None, no_high=True, steps=10, sums={"MME": 9.6})  # fmt: skip
def accelerator_that_is_busy():
    return _recommender(37, 300, 800)


def _matching(seed, hidden):
    p = Rig(A100, seed)
    for _ in p.steps(6, lead=200 if not hidden else 9000):
        for _ in range(30):
            p.run(TC80, 320, "aten::linear")
        if not hidden:
            p.now = max(p.now, p.end() - 40)
        with p.span("detector_ops::hungarian_match", "cpu_op"):
            p.spend(5200)
    return p


@case("idle-in-an-operator", planted="5.2 ms of each step (14.9 ms) the host is inside one operator of an extension, detector_ops::hungarian_match, and the device stands still", cost_ms=5.1, saving_ms=(2.5, 5.3),
      words=("the device waits for the host", "idle device"), where=("detector_ops::hungarian_match",), not_say=("not in the trace", "nothing was recorded", "record the host", "with_stack to see"), least="medium", sums={"tensor16x8x16": 9.6})  # fmt: skip
def an_operator_that_holds_the_device_up():
    return _matching(38, False)


@case("idle-in-an-operator", near=True, planted="the same operator while the queue of the device is full: it hides all of it", absent=("idle device",), most=None, no_high=True, sums={"tensor16x8x16": 9.6})  # fmt: skip
def an_operator_that_is_hidden():
    return _matching(39, True)


def _server(seed, tokenizing):
    p = Rig(H100, seed)
    for i in range(14):
        if tokenizing:
            with p.span("tokenize_prompt"):
                p.spend(26000)
        else:
            p.now += 26000 + 9000 * (i % 3)
        with p.span("handle_request"):
            for _ in range(48):
                p.run(TC90, 210, "aten::linear")
            p.sync()
    return p


@case("idle-server", planted="requests one after the other; before each the host tokenizes for 26 ms (annotation tokenize_prompt), the device works for 10 ms of each 36: 72 % idle. An annotation may be taken for the steps: then it is 26 ms of one", cost_ms=14 * 26.0, saving_ms=(100.0, 370.0),
      words=("the device waits for the host", "idle device"), where=("tokenize_prompt",), not_say=("not in the trace", "record the host"), least="medium", steps=0, sums={"nvjet": 14 * 10.08})  # fmt: skip
def server_that_tokenizes():
    return _server(40, True)


@case("idle-server", near=True, planted="14 requests of 10 ms; for 26 to 44 ms between them nothing at all is recorded: a server without requests. A finding may say so, but not high, without cure and saving", words=("no requests", "idle"), not_say=("record the host",), least=None, most="medium", no_high=True, steps=0, sums={"nvjet": 14 * 10.08})  # fmt: skip
def server_without_requests():
    return _server(41, False)


def _compiled(seed, kernel):
    p = Rig(H100, seed)
    for _ in p.steps(6, lead=120):
        with p.span("Torch-Compiled Region: 2/0", "cpu_op"), p.span("## Call CompiledFxGraph fq3kzw7hb2 ##", "cpu_op"):
            for k in range(200):
                p.run(f"triton_per_fused__to_copy_add_mul_rsqrt_sum_{k % 23}", kernel, host=24, call="cuLaunchKernelEx")
                p.run(
                    "nvjet_tst_64x32_64x16_4x1_v_bz_TNN",
                    kernel,
                    "extern_kernels::mm",
                    host=24,
                    call="cudaLaunchKernelExC",
                )
    return p


@case("compiled-region", planted="a compiled region launches 400 kernels of 7 us (Triton and products in turn), one each 24 us: 9.6 ms of launching for 2.8 ms of work; the device is idle for 71 %", cost_ms=6.8, saving_ms=(4.0, 7.0),
      words=("launch-bound", "launching takes longer than the work"), where=("Torch-Compiled Region", "CompiledFxGraph"), not_say=("replace the loop", "python loop", "vectorize", "vectorise"), advice=("graph", "reduce-overhead"), least="medium", sums={"triton_per": 1.4, "nvjet": 1.4})  # fmt: skip
def compiled_region_that_launches():
    return _compiled(42, 7)


@case("compiled-region", near=True, planted="the same region with kernels of 40 us: launched for 9.6 ms, the device works for 16", absent=("launch-bound", "many small operators", "idle device", "loop"), most=None, not_say=("torch.compile",), no_high=True, sums={"triton_per": 8.0})  # fmt: skip
def compiled_region_that_is_busy():
    return _compiled(43, 40)


# ---- 4. what comes once ----


def _allocating(seed, count, which):
    p = Rig(A100, seed)
    for i in p.steps(count, lead=100):
        if which(i):
            with p.span("aten::empty", "cpu_op"):
                p.sync("cudaFree")
                p.call("cudaFree", p.j(1400))
                for _ in range(3):
                    p.call("cudaMalloc", p.j(900))
        for _ in range(25):
            p.run(TC80, 320, "aten::linear")
    return p


@case("allocator", planted="in each of 9 steps the allocator gives memory back and takes it again: cudaFree 1.4 ms (and the wait before it) and three cudaMalloc of 0.9 = 4.1 ms in which the device stands still, of 12.1", cost_ms=4.1, saving_ms=(2.5, 4.4),
      words=("allocator churn", "cudaMalloc", "memory is allocated anew in each step"), where=("cudaMalloc", "cudaFree", "aten::empty"), not_say=("comes once",), least="medium", steps=9, sums={"tensor16x8x16": 8.0})  # fmt: skip
def memory_taken_in_each_step():
    return _allocating(44, 9, lambda i: True)


@case("allocator", near=True, planted="the same calls in the first three of 10 steps only: the program starts", absent=("allocator churn",), most=None, no_high=True, steps=10, sums={"tensor16x8x16": 8.0})  # fmt: skip
def memory_taken_at_the_start():
    return _allocating(45, 10, lambda i: i < 3)


# ---- 5. collectives ----


@case("expert-parallel", planted="in 8 layers a dispatch (420 us) and a combine (380 us) of experts, on a stream of their own, and the products wait for both: 6.4 ms exposed of 16.2", cost_ms=6.4, saving_ms=(2.0, 6.5),
      words=("communication not overlapped", "exposed communication"), where=("EpDispatch", "EpCombine"), absent=("low occupancy",), least="medium", sums={"EpDispatch": 3.36, "EpCombine": 3.04},
      notes=("exposed communication counts 6.4 ms a step (39 %)",))  # fmt: skip
def experts_that_wait_for_tokens():
    p = Rig(H100, 46)
    for _ in p.steps(6):
        for _ in range(8):
            p.run(TC90, 600, "aten::linear")
            _, e = p.run(
                "void mori::moe::EpDispatchLowLatencyV1Kernel<hip_bfloat16, 8, 256>(EpArgs)",
                420,
                "moe_comm::forward",
                stream=31,
                after=p.free[7] + 2,
                **{"est. achieved occupancy %": 6},
            )
            _, e = p.run(
                "cutlass::device_kernel<sm90_grouped_gemm_e4m3_bf16_ptr_array_pingpong_128x128x128>",
                600,
                "moe::experts",
                after=e + 2,
            )
            _, e = p.run(
                "void mori::moe::EpCombineLowLatencyV1Kernel<hip_bfloat16, 8, 256>(EpArgs)",
                380,
                "moe_comm::backward",
                stream=31,
                after=e + 2,
                **{"est. achieved occupancy %": 6},
            )
            p.free[7] = e + 1
    return p


@case("expert-parallel", near=True, planted="dispatch and combine (6.4 ms, 3 % occupancy, few blocks) run beside products of the other half of the batch, which take 10: hidden, and few blocks are what such kernels should have", absent=("low occupancy", "communication not overlapped"), most=None, no_high=True, sums={"EpDispatch": 3.36, "EpCombine": 3.04})  # fmt: skip
def experts_with_two_halves():
    p = Rig(H100, 47)
    for _ in p.steps(6):
        for _ in range(8):
            at = p.end() + 5
            few = {"grid": [20, 1, 1], "block": [1024, 1, 1], "est. achieved occupancy %": 3}
            p.run(
                "void mori::moe::EpDispatchLowLatencyV1Kernel<hip_bfloat16, 8, 256>(EpArgs)",
                420,
                "moe_comm::forward",
                stream=31,
                after=at + 20,
                **few,
            )
            p.run(
                "void mori::moe::EpCombineLowLatencyV1Kernel<hip_bfloat16, 8, 256>(EpArgs)",
                380,
                "moe_comm::backward",
                stream=31,
                **few,
            )
            for _ in range(4):
                p.run(TC90, 320, "aten::linear")
    return p


def _fsdp(seed, exposed):
    """Products for 13 ms, an all-gather and a reduce-scatter at the same time on two streams, 5 ms each."""
    p = Rig(A100, seed)
    for _ in p.steps(6):
        begin = max(p.end(), p.now)
        for _ in range(26):
            p.run(TC80, 500, "aten::linear")
        start = p.free[7] + 5 if exposed else begin + 900
        for stream, what, op in (
            (19, "AllGather_RING_LL128", "allgather"),
            (23, "ReduceScatter_Sum_bf16_RING_SIMPLE", "reduce_scatter"),
        ):
            p.run(
                f"ncclDevKernel_{what}(ncclDevKernelArgsStorage<4096ul>)",
                5000,
                f"c10d::_{op}_base_",
                stream=stream,
                after=start,
                call="cudaLaunchKernelExC",
                grid=[24, 1, 1],
                block=[544, 1, 1],
            )
        if exposed:
            p.free[7] = p.end()
    return p


@case("union-of-collectives", planted="an all-gather and a reduce-scatter of 5 ms run at the same time on two streams after 13 ms of products: 5 ms exposed (not 10) of 18, 28 %", cost_ms=5.0, saving_ms=(1.5, 5.1),
      words=("communication not overlapped", "exposed communication"), where=("AllGather", "ReduceScatter"), least="medium", sums={"AllGather": 5.0, "ReduceScatter": 5.0},
      notes=("exposed communication is 5 ms, 28 % of the step, never 10 ms or 55 %",))  # fmt: skip
def two_collectives_at_once():
    return _fsdp(48, True)


@case("union-of-collectives", near=True, planted="the same beside the products: both hidden", absent=("communication not overlapped",), most=None, no_high=True, sums={"AllGather": 5.0})  # fmt: skip
def two_collectives_hidden():
    return _fsdp(49, False)


# ---- 6. the usual step ----


def _function(seed, which, count=8):
    p = Rig(H100, seed)
    for i in p.steps(count, lead=60):
        with p.span("train.py(118): train_one_epoch", "python_function", **{"Python id": 1}):
            for _ in range(40):
                p.run(TC90, 210, "aten::linear")
            p.now = max(p.now, p.end() - 50)
            with p.span(
                "losses/assign.py(77): assign_targets", "python_function", **{"Python id": 2, "Python parent id": 1}
            ):
                p.spend(4400 if which(i) else 30)
    return p


@case("usual-step", planted="in each step the host is in assign_targets for 4.4 ms, and the device stands still: of 12.9", cost_ms=4.3, saving_ms=(2.0, 4.5), words=("idle device", "the device waits for Python"),
      where=("assign_targets",), not_say=("not in the trace",), least="medium", steps=8, sums={"nvjet": 8.4})  # fmt: skip
def a_function_in_each_step():
    return _function(50, lambda i: True)


@case("usual-step", near=True, planted="the same in the third and the seventh step of 8 only: the usual step has none of it", absent=("idle device", "a slow function"), most=None, no_high=True, steps=8, sums={"nvjet": 8.4})  # fmt: skip
def a_function_in_one_step_of_four():
    return _function(51, lambda i: i in (2, 6))


def _optimizer(seed, fused):
    p = Rig(A100, seed)
    for _ in p.steps(6, lead=80):
        for _ in range(20):
            p.run(TC80, 350, "aten::linear")
        p.now = max(p.now, p.end() - 60)
        with p.span("Optimizer.step#ScaledOptimizer.step"):
            if fused:
                p.spend(250)
                with p.span("Optimizer.step#NAdam.step"):
                    p.run(
                        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedNAdamFunctor<float>, float>(Params)",
                        700,
                        "aten::_fused_nadam_",
                    )
            else:
                with p.span("Optimizer.step#NAdam.step"):
                    for k in range(360):
                        p.run(
                            EW.format(("MulScalar", "LerpFunctor", "AddcdivFunctor")[k % 3], 3),
                            4,
                            ("aten::mul_", "aten::lerp_", "aten::addcdiv_")[k % 3],
                            host=13,
                        )
    return p


@case("nested-optimizer", planted="an optimizer inside a wrapper's Optimizer.step: NAdam updates each of 120 parameters with 3 kernels of 4 us, launched each 13 us: 4.7 ms, of which the device is idle for 3.2, of 11.7", cost_ms=3.2, saving_ms=(1.8, 4.6),
      words=("optimizer with a kernel for each parameter", "foreach or fused", "launch-bound"), where=("NAdam",), where_not=("ScaledOptimizer",), least="medium", sums={"Functor": 0.96, "tensor16x8x16": 7.0})  # fmt: skip
def optimizer_in_a_wrapper():
    return _optimizer(52, False)


@case("nested-optimizer", near=True, planted="the inner optimizer is one fused kernel of 0.7 ms of 8", absent=("optimizer with a kernel for each parameter", "foreach or fused"), most=None, no_high=True, sums={"FusedNAdam": 0.7})  # fmt: skip
def fused_optimizer_in_a_wrapper():
    return _optimizer(53, True)


def _unrolled(seed, compiled):
    p = Rig(H100, seed)
    for _ in p.steps(6, lead=60):
        with contextlib.ExitStack() as stack:
            if compiled:
                stack.enter_context(p.span("Torch-Compiled Region: 0/1", "cpu_op"))
            else:
                stack.enter_context(p.span("model/cell.py(52): unroll", "python_function", **{"Python id": 7}))
            for _ in range(150):
                p.run(
                    "nvjet_tst_32x64_64x16_1x2_h_bz_TNN", 6, "extern_kernels::mm" if compiled else "aten::mm", host=18
                )
                p.run(
                    "triton_poi_fused_tanh_mul_4" if compiled else EW.format("tanh_kernel_cuda", 2),
                    4,
                    None if compiled else "aten::tanh",
                    host=18,
                )
                p.run(
                    "triton_poi_fused_sigmoid_add_5" if compiled else EW.format("sigmoid_kernel_cuda", 2),
                    4,
                    None if compiled else "aten::sigmoid",
                    host=18,
                )
    return p


@case("loops", planted="a loop of 150 passes in unroll, three operators with kernels of 4 to 6 us each, launched each 18 us: 8.1 ms for 2.1 ms of work", cost_ms=6.0, saving_ms=(3.5, 6.2), words=("loop", "many small operators", "launch-bound"),
      where=("unroll", "aten::mm", "aten::tanh", "aten::sigmoid"), least="medium", sums={"nvjet": 0.9})  # fmt: skip
def loop_of_small_operators():
    return _unrolled(54, False)


@case("loops", near=True, planted="the same sequence below a compiled region: the loop is unrolled already. Launch-bound is true (advice: graphs), a loop is not", words=("launch-bound",), where=("Torch-Compiled Region",), advice=("graph", "reduce-overhead"), not_say=("replace the loop", "python loop", "vectorize", "vectorise"), absent=("a loop",), least="medium", most="high", sums={"nvjet": 0.9})  # fmt: skip
def loop_in_a_compiled_region():
    return _unrolled(55, True)


# ---- 7. the device only (no operators) ----


def _alone(seed, kernel):
    p = Rig(A100, seed, external=False)
    for _ in p.steps(7, lead=50):
        for k in range(420):
            p.run(
                (
                    EW.format("CUDAFunctor_add<float>", 3),
                    LN,
                    "void fastertransformer::addBiasResidual<__half, 4>(Params)",
                )[k % 3],
                kernel,
                host=21,
            )
    return p


@case("device-alone-launches", planted="kernels and calls without operators: 420 kernels of 6 us, launched each 21 us: 8.8 ms for 2.5 ms of work", cost_ms=6.3, saving_ms=(3.5, 6.5), words=("launch-bound", "many small kernels"), where=("cudaLaunchKernel", "elementwise", "layer_norm", "addBiasResidual"), least="medium", steps=7, sums={"addBias": 0.84})  # fmt: skip
def kernels_alone_that_are_launched_late():
    return _alone(56, 6)


@case("device-alone-launches", near=True, planted="the same with kernels of 31 us: no gaps (these kernels in a row may well be called fusible)", absent=("launch-bound", "many small kernels launched late", "idle device"), most=None, sums={"addBias": 4.34}, steps=7)  # fmt: skip
def kernels_alone_in_a_queue():
    return _alone(57, 31)


def _alone_waits(seed, after, no_steps):
    p = Rig(H100, seed, external=False)
    for _ in range(12):
        for _ in range(30):
            p.run(TC90, 200, host=6)
        if after:
            p.sync()
            p.now += p.j(after)
        else:
            at, until = p.now, p.end() - 500
            p.call("cudaEventSynchronize", until - at)
    return p


@case("device-alone-waits", planted="no operators, no steps: 12 rounds, after each the host waits (cudaStreamSynchronize) and comes back 3 ms later: 3 of each 9.1 ms idle", cost_ms=11 * 3.0, saving_ms=(15.0, 34.0), words=("the host waits for the device", "synchronisation", "idle device"), where=("cudaStreamSynchronize",), least="medium", steps=0, sums={"nvjet": 12 * 6.0}, notes=("the share of waiting in the notes is that of the finding",))  # fmt: skip
def waits_without_operators():
    return _alone_waits(58, 3000, True)


@case("device-alone-waits", near=True, planted="the host waits for an event as long, but 0.5 ms of work is in the queue behind it: the device never stands still", absent=("synchronisation", "idle device"), most=None, no_high=True, steps=0, sums={"nvjet": 12 * 6.0})  # fmt: skip
def waits_that_cost_nothing():
    return _alone_waits(59, None, True)


# ---- 8. notes ----


def _known(seed, known, unknown):
    p = Rig(H100, seed)
    dims = {"Input Dims": [[8192, 8192], [8192, 8192]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    for _ in p.steps(6):
        for _ in range(known):
            p.run(TC90, 2000, "aten::mm", op_args=dims)
        for _ in range(unknown):
            p.run("_attn_bwd_dkdv_block_sparse_0d1d2d3d4", 2000, "flex_lib::sparse_attention")
    return p


@case("peak-share", planted="7 of 9 kernels of 2 ms have known FLOPs: 7 x 1.0995e12 in 18 ms is 428e12 a second, 43 % of 989e12: the share is of the same window as busy", notes=("43 % of the peak (of the step), beside busy 99 %; never 56 % (of the kernels)",), least=None, most=None, no_high=True, sums={"nvjet": 14.0, "_attn_bwd": 4.0})  # fmt: skip
def flops_known_for_most():
    return _known(60, 7, 2)


@case("peak-share", near=True, planted="2 of 9 kernels (22 % of the time) have known FLOPs: no share of the peak may be stated", not_say=("note:of the peak",), most=None, no_high=True, sums={"nvjet": 4.0, "_attn_bwd": 14.0})  # fmt: skip
def flops_known_for_few():
    return _known(61, 2, 7)


def _first_uses(seed, slow):
    """The first launches of two kernels take long: code is loaded; then 200 ms of products."""
    p = Rig(A100, seed)
    for _ in range(30):
        p.run(TC80, 300, "aten::mm")
    for op, ms in (("aten::erfinv", 45), ("aten::cdist", 220)):
        p.sync()
        p.run(f"void at::native::first_{op[6:]}_kernel<float>(float*)", 120, op, host=ms * 1000 if slow else 9)
        for _ in range(60):
            p.run(TC80, 300, "aten::mm")
    for _ in range(600):
        p.run(TC80, 300, "aten::mm")
        p.now = max(p.now, p.end() - 900)
    return p


@case("left-out", planted="no steps: two first launches load code, 45 ms (aten::erfinv) and 220 ms (aten::cdist), in 225 ms of work: nothing to find", notes=("of what was left out as it comes once, the 220 ms (cdist) is named first",), absent=("idle device", "launch-bound"), least=None, most=None, no_high=True, steps=0, sums={"tensor16": 225.0})  # fmt: skip
def two_first_uses():
    return _first_uses(62, True)


@case("left-out", near=True, planted="the same without the loading: nothing is left out", not_say=("note:comes once",), absent=("idle device", "launch-bound"), most=None, no_high=True, steps=0, sums={"tensor16": 225.0})  # fmt: skip
def no_first_use():
    return _first_uses(63, False)


def _job(seed, exposed):
    ranks = []
    for r, late in enumerate(exposed):
        p = Rig(H100, seed + r)
        group = {
            "pg_name": "0",
            "pg_desc": "default_pg",
            "backend_config": "cuda:nccl",
            "pg_size": len(exposed),
            "ranks": list(range(len(exposed))),
        }
        p.members["distributedInfo"] = {
            "backend": "nccl",
            "rank": r,
            "world_size": len(exposed),
            "pg_count": 1,
            "pg_config": [group],
            "nccl_version": "2.27.3",
        }
        for _ in p.steps(6):
            for _ in range(30):
                p.run(TC90, 300, "aten::linear")
            with p.span("nccl:reduce_scatter"):
                p.run(
                    "ncclDevKernel_ReduceScatter_Sum_bf16_PAT_SIMPLE(ncclDevKernelArgsStorage<4096ul>)",
                    3000,
                    stream=21,
                    call="cudaLaunchKernelExC",
                    after=p.free[7] + (5 if late else -3100),
                    grid=[16, 1, 1],
                    block=[640, 1, 1],
                )
            p.free[7] = p.end()
        ranks.append(p)
    return ranks


@case("ranks", planted="four ranks, each with an exposed reduce-scatter of 3 of 12 ms: the same on 3 more ranks", cost_ms=3.0, saving_ms=(0.9, 3.1), words=("communication not overlapped",), where=("ReduceScatter",), least="medium", notes=("the same on 3 more ranks",), sums={"ReduceScatter": 3.0})  # fmt: skip
def four_ranks_alike():
    return _job(64, (True, True, True, True))


@case("ranks", near=True, planted="of four ranks only rank 2 has its reduce-scatter exposed: 'the same on N more ranks' may not be said", cost_ms=3.0, saving_ms=(0.9, 3.1), words=("communication not overlapped",), where=("ReduceScatter",), least="low", not_say=("more rank", "note:more rank"), sums={"ReduceScatter": 3.0})  # fmt: skip
def one_rank_of_four():
    return _job(70, (False, False, True, False))
