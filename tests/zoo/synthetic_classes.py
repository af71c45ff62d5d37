"""More programs on a device, in the form of synthetic_devices.py: kernels by class that a reader of the timeline names,
idle time that a backward pass, a loop or an annotation holds, and waiting that one rank of several cannot judge."""

from synthetic_devices import A100, CASES, EW, H100, LN, TC80, TC90, Accelerator, Rig, case  # noqa: F401 (with these it is all of them)

CUB_SORT = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<DeviceRadixSortPolicy<float, long, int>::Policy900, false, float, long, int>(int*)"
TOPK = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(TensorInfo<float const, unsigned int>)"
GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
SCATTER = "void at::native::(anonymous namespace)::indexing_backward_kernel_stride_1<c10::BFloat16, 4>(long const*, long const*)"
PAD_INDEX = "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(long)::{lambda()#1}>(int)"
FILL = EW.format("FillFunctor<c10::BFloat16>", 1)
DROPOUT = "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, bernoulli_kernel>(long)"
LOG_SOFTMAX = (
    "void (anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, float, LogSoftMaxForwardEpilogue>(float*)"
)
LOSS_BACK = "void (anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, float, LogSoftMaxBackwardEpilogue>(float*)"
FOREACH = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<{}>, {}<float, {}, 1, 0>, float>(Params)"
FUSED = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>(Params)"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int)"
MIXED_SUM = "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>, TrivialOffsetCalculator<2, unsigned int>, at::native::memory::LoadWithCast<2>, at::native::memory::StoreWithCast<1> >(int)"
TO_BF16 = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
TABLE_BACK = (
    "void at::native::(anonymous namespace)::embedding_backward_kernel<float, float, long>(float*, long const*)"
)
FUSED_TABLE = "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<c10::Half, float, c10::Half, 2ul, 32>(at::GenericPackedTensorAccessor)"
FP64 = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1>(Params)"


def _beside_products(seed, others, device=H100, products=24, product_us=300, count=6, **args):
    """Each step multiplies and does what others has: (operator, kernel, us, how often)."""
    p = Rig(device, seed)
    for _ in p.steps(count):
        for k in range(products):
            p.run(TC90, product_us, "aten::linear")
            for op, kernel, us, often in others:
                for _ in range(often // products + (k < often % products)):
                    p.run(kernel, us, op, **args)
    return p


def _planted_and_near(name, seed, words, where, planted, others, near_planted, near_others, sums, **about):
    """A case that must be found as medium at least, and never be high; and one of the same class that is nothing."""
    cost = sum(us * often for _, _, us, often in others) / 1000

    def flawed():
        return _beside_products(seed, others)

    def alike():
        return _beside_products(seed + 1, near_others)

    flawed.__name__, alike.__name__ = f"{name}_for_much_of_the_step", f"{name}_for_little_of_it"
    case(
        name,
        planted=planted,
        cost_ms=cost,
        words=words,
        where=where,
        least="medium",
        most="medium",
        no_high=True,
        sums=sums,
        **about,
    )(flawed)
    case(name, near=True, planted=near_planted, absent=words, most=None, no_high=True)(alike)


# ---- kernels by class: 24 products of 300 us are 7.2 ms of each step ----

_planted_and_near("indexing", 70, ("indexing",), ("gather", "indexing_backward"),
    "24 gathers of 60 us and 24 scatters of 90 us: 3.6 of 10.8 ms, 33 %",
    [("aten::index_select", GATHER, 60, 24), ("aten::_index_put_impl_", SCATTER, 90, 24)],
    "four gathers of 60 us: 0.24 of 7.4 ms, and arange, which has an index in its name and reads none",
    [("aten::index_select", GATHER, 60, 4), ("aten::arange", PAD_INDEX, 40, 24)], {"gather": 1.44, "stride_1": 2.16})  # fmt: skip
_planted_and_near("sorting", 72, ("sorting",), ("RadixSort", "gatherTopK"),
    "12 radix sorts of 220 us and 12 selections of 80 us: 3.6 of 10.8 ms",
    [("aten::sort", CUB_SORT, 220, 12), ("aten::topk", TOPK, 80, 12)],
    "one selection of 80 us in 7.3 ms", [("aten::topk", TOPK, 80, 1)], {"RadixSort": 2.64, "TopK": 0.96})  # fmt: skip
_planted_and_near("filling", 74, ("filling",), ("FillFunctor",),
    "24 fills of 75 us: 1.8 of 9 ms, 20 %", [("aten::zero_", FILL, 75, 24)],
    "24 fills of 3 us", [("aten::zero_", FILL, 3, 24)], {"FillFunctor": 1.8}, saving_ms=(0.5, 1.8))  # fmt: skip
_planted_and_near("random-numbers", 76, ("random numbers",), ("distribution",),
    "24 masks of dropout of 80 us, each between two products: 1.92 of 9.1 ms, 21 %",
    [("aten::native_dropout", DROPOUT, 80, 24)], "24 of 6 us", [("aten::native_dropout", DROPOUT, 6, 24)],
    {"distribution": 1.92})  # fmt: skip
_planted_and_near("unfused-loss", 78, ("unfused loss",), ("LogSoftMax",),
    "a loss over 152064 classes: 1.3 ms forward and 1.6 back of 10.1 ms, 29 %",
    [("aten::_log_softmax", LOG_SOFTMAX, 1300, 1), ("aten::_log_softmax_backward_data", LOSS_BACK, 1600, 1)],
    "one over 1000 classes: 0.02 ms", [("aten::_log_softmax", LOG_SOFTMAX, 8, 1), ("aten::_log_softmax_backward_data", LOSS_BACK, 12, 1)],
    {"LogSoftMax": 2.9})  # fmt: skip
_planted_and_near("optimizer-passes", 80, ("passes of the update",), ("multi_tensor_apply",),
    "AdamW with foreach: 8 passes of 250 us over all parameters: 2 of 9.2 ms, 22 %; one pass in their place",
    [("aten::_foreach_addcdiv_", FOREACH.format(4, "PointwiseOpScalarFunctor", 4), 250, 4),
     ("aten::_foreach_lerp_", FOREACH.format(3, "TernaryOpScalarFunctor", 3), 250, 4)],
    "AdamW in one fused kernel of 700 us: 0.7 of 7.9 ms", [("aten::_fused_adamw_", FUSED, 700, 1)],
    {"multi_tensor_apply": 2.0}, saving_ms=(0.5, 1.8))  # fmt: skip
_planted_and_near("double-precision", 82, ("FP64",), ("d884gemm",),
    "12 products in FP64 of 250 us: 3 of 10.2 ms, 29 %", [("aten::mm", FP64, 250, 12)],
    "one of 250 us", [("aten::mm", FP64, 250, 1)], {"d884gemm": 3.0}, not_say=("TF32", "autocast"))  # fmt: skip

_planted_and_near("type-conversions", 86, ("type conversions",), ("copy_kernel",),
    "48 conversions of 45 us, weights and inputs cast before each product: 2.2 of 9.4 ms, 23 %",
    [("aten::to", CAST, 45, 24), ("aten::to", TO_BF16, 45, 24)],
    "24 sums of two types of 12 us, which convert on the way, and 24 casts of 4 us",
    [("aten::add", MIXED_SUM, 12, 24), ("aten::to", CAST, 4, 24)], {"direct_copy": 1.08, "bfloat16_copy": 1.08}, saving_ms=(0.7, 2.2))  # fmt: skip
_planted_and_near("dense-table", 88, ("dense gradient of a table",), ("embedding_backward",),
    "three gradients of tables of 600 us: 1.8 of 9 ms, 20 %", [("aten::embedding_dense_backward", TABLE_BACK, 600, 3)],
    "a fused update of a table that touches the rows looked up alone: 1.8 of 9 ms", [("fbgemm::split_embedding_backward", FUSED_TABLE, 600, 3)],
    {"embedding_backward": 1.8}, advice=("sparse",))  # fmt: skip


# ---- memsets, and kernels of serving engines ----


def _cleared(seed, us):
    p = Rig(H100, seed)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
            p.run("Memset (Device)", us, "aten::zero_", call="cudaMemsetAsync", cat="gpu_memset", bytes=100 << 20)
    return p


@case("filling", planted="24 memsets of 70 us between products: 1.7 of 8.9 ms, 19 %", cost_ms=1.68, words=("filling",), where=("Memset",), least="medium", most="medium", no_high=True)  # fmt: skip
def buffers_cleared_by_memset():
    return _cleared(135, 70)


@case("filling", near=True, planted="24 memsets of 2 us", absent=("filling",), most=None, no_high=True)
def short_memsets():
    return _cleared(136, 2)


def _engine(seed, apart):
    p = Rig(H100, seed)
    serving = (
        ("void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)", 40),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", 50),
        (
            "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(bf16*)",
            45,
        ),
        ("void vllm::act_and_mul_kernel<c10::BFloat16, silu>(c10::BFloat16*)", 45),
    )
    for _ in p.steps(6):
        for _ in range(16):
            for kernel, us in serving:
                p.run(kernel, us)
                if apart:
                    p.run(TC90, 110)
            if not apart:
                p.run(TC90, 440)
    return p


@case("element-wise", planted="16 rows of a norm, a rotation, a write to the cache and a gate, 180 us each, of which all but the longest is 130: 2.9 of 10 ms", words=("fuse",), saving_ms=(0.8, 2.1), absent=("indexing",), least="medium")  # fmt: skip
def rows_of_serving_kernels():
    return _engine(137, False)


@case(
    "element-wise",
    near=True,
    planted="the same kernels, each behind a product",
    absent=("fuse", "indexing"),
    most=None,
    no_high=True,
)
def serving_kernels_apart():
    return _engine(138, True)


# ---- few blocks ----

LONG_TAIL = "void beam::merge_candidates_kernel<float>(float const*, int*, int)"


@case("few-blocks", planted="a kernel of 8 blocks runs for 2.6 ms of 9.8 on a device of 132 multiprocessors, beside nothing: 94 % of them wait",
      cost_ms=2.6, saving_ms=(0.8, 2.5), words=("few blocks",), where=("merge_candidates",), least="medium", most="medium", no_high=True, sums={"merge_candidates": 2.6})  # fmt: skip
def a_long_kernel_of_few_blocks():
    p = Rig(H100, 84)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
        p.run(LONG_TAIL, 2600, "beam::merge", grid=[8, 1, 1], block=[512, 1, 1])
    return p


@case("few-blocks", near=True, planted="the same kernel on a stream of its own, beside products that fill the device", absent=("few blocks",), most=None, no_high=True)  # fmt: skip
def a_kernel_of_few_blocks_beside_others():
    p = Rig(H100, 85)
    for _ in p.steps(6):
        p.run(LONG_TAIL, 2600, "beam::merge", stream=21, after=p.end(), grid=[8, 1, 1], block=[512, 1, 1])
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
    return p


# ---- copies ----


def _copies(seed, name, us, often, size, stream):
    p = Rig(H100, seed)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
            for _ in range(often // 24):
                p.run(name, us, "aten::copy_", stream=stream, call="cudaMemcpyAsync", cat="gpu_memcpy", bytes=size)
    return p


@case("copies-to-the-host", planted="24 activations of 7 MB go to pinned memory on the computing stream, 130 us each: 3.1 of 10.3 ms in which nothing computes",
      cost_ms=3.12, saving_ms=(2.0, 3.2), words=("exposed copy",), where=("DtoH",), advice=("stream",), least="medium", sums={"DtoH": 3.12})  # fmt: skip
def activations_that_leave_on_the_same_stream():
    return _copies(86, "Memcpy DtoH (Device -> Pinned)", 130, 24, 7_000_000, 7)


@case("copies-to-the-host", near=True, planted="the same copies on another stream, beside the products", absent=("exposed copy",), most=None, no_high=True)  # fmt: skip
def activations_that_leave_beside_products():
    return _copies(87, "Memcpy DtoH (Device -> Pinned)", 130, 24, 7_000_000, 23)


@case("small-copies", planted="240 copies of 2 kB to the device of 5 us each: 1.2 of 8.4 ms; one copy of 480 kB in their place",
      cost_ms=1.2, words=("exposed copy",), where=("HtoD",), advice=("one buffer",), least="low", most="medium", sums={"HtoD": 1.2})  # fmt: skip
def many_small_copies():
    return _copies(88, "Memcpy HtoD (Pinned -> Device)", 5, 240, 2048, 7)


# ---- the place of idle time ----


def _backward(seed, hidden, stacks):
    """Forward on the thread of the loop; the backward pass on autograd's, which ends with a function of Python."""
    p, loop, engine = Rig(H100, seed), 10, 31
    for _ in p.steps(6, lead=9000 if hidden else 40, first=30):
        with p.span("train.py(52): train", "python_function", **{"Python id": 1}):
            for _ in range(12):
                p.run(TC90, 250, "aten::linear")
            with p.span("<built-in method run_backward of torch._C._EngineBase object at 0x7f21>", "python_function",
                        **{"Python id": 2, "Python parent id": 1}):  # fmt: skip
                p.tid = engine
                for _ in range(12):
                    with p.span("autograd::engine::evaluate_function: AddmmBackward0", "cpu_op"):
                        p.run(TC90, 500, "AddmmBackward0")
                if not hidden:
                    p.now = max(p.now, p.end() - 30)
                with p.span("autograd::engine::evaluate_function: OptimalTransportBackward", "cpu_op"):
                    with p.span("OptimalTransportBackward", "cpu_op"):
                        if stacks:
                            with p.span("transport.py(88): backward", "python_function", **{"Python id": 3}):
                                p.spend(4200)
                        else:
                            p.spend(4200)
                p.tid = loop
            for _ in range(4):
                p.run(LN, 60, "aten::_fused_adamw_")
    return p


@case("backward-thread", planted="at the end of the backward pass, on autograd's thread, a function of Python takes 4.2 ms; the next work is launched by the thread of the loop: idle for 4.2 of 13.5 ms",
      cost_ms=4.2, saving_ms=(1.5, 4.4), words=("idle device",), where=("OptimalTransportBackward",), where_not=("train.py(52)",), least="medium", sums={"nvjet": 9.0})  # fmt: skip
def a_function_of_the_backward_pass():
    return _backward(90, False, False)


@case("backward-thread", planted="the same with stacks: the line of the function's backward", cost_ms=4.2, saving_ms=(1.5, 4.4),
      words=("idle device",), where=("transport.py(88): backward",), least="medium", sums={"nvjet": 9.0})  # fmt: skip
def a_function_of_the_backward_pass_with_stacks():
    return _backward(91, False, True)


@case("backward-thread", near=True, planted="the same function while the device has 9 ms of work queued", absent=("idle device",), most=None, no_high=True)  # fmt: skip
def a_function_of_the_backward_pass_that_is_hidden():
    return _backward(92, True, False)


@case("place-of-a-loop", planted="an annotation around 160 turns of three operators that are launched each 18 us for kernels of 4 us, and 1.6 ms of products before: 8.7 ms a step, of which 3.5 are work; no stacks. The place is the annotation, no kernel",
      cost_ms=5.2, words=("launch-bound", "loop"), where=("beam_search",), where_not=("kernel",), least="medium", sums={"Functor": 1.92})  # fmt: skip
def a_loop_in_an_annotation():
    p = Rig(H100, 93)
    for _ in p.steps(6, lead=30):
        for _ in range(8):
            p.run(TC90, 200, "aten::linear")
        with p.span("beam_search"):
            for _ in range(160):
                for op in ("add", "mul", "where"):
                    p.run(EW.format(f"{op}Functor", 3), 4, f"aten::{op}", host=18)
    return p


@case("annotations-alone", planted="an accelerator without launches, and annotations alone on the host: build_graph holds 2.4 of 5.3 ms of idle time a step, pad 1.6, log 1.3; none holds half, and the most is named",
      cost_ms=5.3, words=("idle device",), where=("build_graph",), least="medium", sums={"MME": 8.0})  # fmt: skip
def annotations_and_nothing_else():
    p = Accelerator(94)
    for _ in p.steps(8, lead=0):
        for name, us in (("build_graph", 2400), ("pad", 1600), ("log", 1300)):
            with p.span(name):
                p.spend(us)
            for _ in range(4):
                p.work("MME_gemm_bf16", 667)
            p.now = max(p.now, p.end())
    return p


# ---- many small collectives ----


def _small_collectives(seed, each, us, size):
    p = Rig(H100, seed)
    for _ in p.steps(6):
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
        for _ in range(each):
            _, end = p.run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", us, "c10d::allreduce_",
                           stream=19, after=p.free[7] + 2, **{"Collective name": "allreduce", "In msg nelems": size, "dtype": "BFloat16"})  # fmt: skip
            p.free[7] = end
    return p


@case("small-collectives", planted="90 all-reduces of 8 kB take 30 us each behind the backward pass: 2.7 of 10.1 ms, and all of it would fit in one; 1.5 ms of sending stay at 1 GB/s",
      cost_ms=2.7, saving_ms=(0.8, 2.7), words=("small collectives",), where=("allreduce",), least="low", most="medium", no_high=True)  # fmt: skip
def many_small_collectives():
    return _small_collectives(98, 90, 30, 4096)


@case("small-collectives", near=True, planted="one all-reduce of 8 kB of 30 us", absent=("small collectives", "communication not overlapped"), most=None, no_high=True)  # fmt: skip
def one_small_collective():
    return _small_collectives(99, 1, 30, 4096)


def _calls_of_collectives(seed, us):
    """A loop that reduces each of 100 gradients by itself: the host is in each call for 60 us; no size is stated."""
    p = Rig(A100, seed)
    for _ in p.steps(6, lead=30):
        for _ in range(12):
            p.run(TC80, 250, "aten::linear")
        for _ in range(100):
            p.run("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", us, "c10d::allreduce_", stream=14, host=60)
    return p


@case("small-collectives", planted="100 all-reduces of 9 us behind the backward pass, called one by one for 60 us each: 6 ms of the host, which is the slower side, of 6.3; nine of ten calls could go",
      cost_ms=6.0, saving_ms=(1.5, 5.5), words=("small collectives",), where=("c10d::allreduce_",), least="medium", most="medium")  # fmt: skip
def collectives_called_one_by_one():
    return _calls_of_collectives(100, 9)


@case("small-collectives", near=True, planted="the same calls for kernels of 120 us: they are no small messages. They take 12 of 12.2 ms, of which 9.2 beside nothing: there is nothing left to hide them behind, so no saving is known",
      cost_ms=9.2, words=("communication not overlapped",), absent=("small collectives",), least="medium", most="medium", no_high=True)  # fmt: skip
def collectives_that_take_long():
    return _calls_of_collectives(101, 120)


# ---- memory of the device ----


def memory_by_step(times_us):
    """Each step takes memory once, in which the device stands still for so long, then computes for 8 ms."""
    p = Rig(H100, 97, jitter=0)
    for i in p.steps(len(times_us), lead=0):
        p.now = max(p.now, p.end())
        p.call("cudaMalloc", times_us[i])
        for _ in range(20):
            p.run(TC90, 400, "aten::linear")
    return p


# ---- one rank of several ----


def _one_rank(seed, waits):
    """An all-reduce of one size a step that takes 1.5 ms when no rank is late; the rank is one of eight."""
    p = Rig(H100, seed)
    p.members["distributedInfo"] = {"backend": "nccl", "rank": 3, "world_size": 8}
    for i in p.steps(8):
        for _ in range(24):
            p.run(TC90, 300, "aten::linear")
        _, end = p.run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1500 + waits(i), "c10d::allreduce_",
                       stream=19, after=p.free[7] + 2, call="cudaLaunchKernelExC",
                       **{"Collective name": "allreduce", "In msg nelems": 60_000_000, "dtype": "BFloat16"})  # fmt: skip
        p.free[7] = end
    return p


@case("one-rank", planted="an exposed all-reduce takes 1.5 ms in two steps of 8 and 4.5 in the others: 30 in 8 steps, 3.75 of 10.95 ms on average, less than the median of 4.5. What is above 1.5 may be waiting for a late rank: a saving of 1.5 ms at most",
      cost_ms=3.75, saving_ms=(1.0, 1.55), words=("communication not overlapped",), where=("AllReduce",), least="medium", most="medium", no_high=True)  # fmt: skip
def a_rank_that_may_wait_for_others():
    return _one_rank(95, lambda i: 0 if i in (2, 5) else 3000)


@case("one-rank", planted="the same all-reduce takes 0.2 ms in one step of 8 and 4.5 in the others: nearly all may be waiting; no saving is known", words=("communication not overlapped",),
      where=("AllReduce",), least="low", most="low", no_high=True)  # fmt: skip
def a_rank_that_only_waits():
    return _one_rank(96, lambda i: -1300 if i == 4 else 3000)


# ---- pauses in which nothing was recorded ----


def _requests(seed, steps, recorded):
    """Runs of 8 ms on an accelerator without launches, an operator in each, and 24 ms between them."""
    p = Accelerator(seed)
    for _ in p.steps(8, lead=0) if steps else range(8):
        if recorded:
            with p.span("ranker::build_batch"):
                p.spend(24000)
        else:
            p.now += 24000
        with p.span("ranker::run"):
            for _ in range(20):
                p.work("MME_gemm_bf16_tpc_fused", 400, "aten::linear")
            p.now = max(p.now, p.end())
    return p


_UNKNOWN = dict(near=True, absent=("a slow function", "a loop", "launch-bound", "synchronisation"), words=("no requests",),
                not_say=("record the host", "in python"), least=None, most="low", no_high=True)  # fmt: skip


@case("idle-server", planted="8 times 24 ms of nothing recorded, then 8 ms of work on an accelerator without launches: what would close the pauses is not in the trace", steps=0, **_UNKNOWN)  # fmt: skip
def accelerator_between_requests():
    return _requests(130, False, False)


@case("idle-server", planted="the same, with a step around each pause and run: a step says nothing of what passes in it", steps=8, **_UNKNOWN)  # fmt: skip
def accelerator_between_requests_in_steps():
    return _requests(131, True, False)


@case("idle-accelerator", planted="the same, with an annotation of 24 ms around the making of a batch: 75 % idle, and the place is known; the two side by side save the shorter, 8 ms",
      words=("idle device", "the device waits for the host"), where=("ranker::build_batch",), saving_ms=(7.0, 8.5), least="medium", steps=8)  # fmt: skip
def accelerator_behind_a_batch():
    return _requests(132, True, True)


def _pauses(seed, recorded):
    """Steps of 10 ms of products, between whose launches the host is silent for 8 ms, or in a function of Python."""
    p = Rig(A100, seed)
    for _ in p.steps(8, lead=0):
        for _ in range(25):
            p.run(TC80, 400, "aten::linear")
        p.now = max(p.now, p.end() + 5)
        if recorded:
            with p.span("data/mask.py(9): make_mask", "python_function", **{"Python id": 3}):
                p.spend(8000)
        else:
            p.now += 8000
        p.run(TC80, 400, "aten::linear")
    return p


@case("idle-server", planted="a CUDA device stands still for 8 of 18 ms in the middle of each step, and no call, operator or function is in that time", steps=8, **_UNKNOWN)  # fmt: skip
def silence_inside_steps():
    return _pauses(133, False)


@case("usual-step", planted="the same with a function of Python in that time", words=("idle device", "a slow function", "the device waits for Python"), where=("make_mask",), least="medium", steps=8)  # fmt: skip
def a_function_inside_steps():
    return _pauses(134, True)
