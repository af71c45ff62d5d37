/* Tests of names.c: what a name says, one line a case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "unit/mini_trace.h"

static struct tg__str str(const char *s) { return (struct tg__str){s, (uint32_t)strlen(s)}; }

static void collective_kernels(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool is;
  } cases[] = {
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", true},
      {"NCCLdevKernel", true}, /* begins with nccl, in any case */
      {"rcclFoo", true},
      {"hccl_reduce", true},
      {"my_nccl", false},                /* nccl by itself counts at the beginning only */
      {"void foo<ncclKernelBar>", true}, /* these parts count anywhere */
      {"x_ncclDevKernel_y", true},
      {"a rcclGenericKernel", true},
      {"MSCCLKernel_x", true},
      {"void vllm::cross_device_reduce_1stage<float>", true},
      {"void oneshotallreduce", true},
      {"TwoShotAllReduceKernel", true},
      {"my_nvshmem_put", true},
      {"nccl", true},
      {"void deep_ep::intranode::dispatch<(int)8, (int)768, (int)8192>(int4 *)", true},
      {"void deep_ep::internode_ll::combine<true, 7168>(void*)", true},
      {"void mori::moe::EpDispatchLowLatencyV1Kernel<hip_bfloat16>(EpArgs)", true},
      {"void my_ep::(anonymous namespace)::combine<8, 256>(int4*)", true},
      {"void any::dispatch<8>(void*)", true},
      {"void flash::flash_fwd_splitkv_combine_kernel<Traits, 4>(Params)",
       false}, /* adds up what blocks have worked out */
      {"void any::dispatcher<combine<8>>(void*)", false},
      {"void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", false}, /* counts, sends nothing */
      {"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)", true},
      {"void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", true},
      {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16, 2>()", true},
      {"_ZN5aiter30allreduce_fusion_kernel_1stageIDF16b", true}, /* mangled */
      {"quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>", true},
      {"void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>", true},
      {"void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8>", true},
      {"userbuffers_fp16_sum_inplace_gpu_rw_ag", true},
      {"void moe::dispatch_tokens<float>", false},
      {"triton_poi_fused_add_all_reduce_4", false}, /* adds what was reduced */
      {"ncc", false},
      {"", false},
      {"void at::native::elementwise_kernel", false},
      {"cross_device_reduc", false},
      {"reduce_kernel<512>", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (tg__name_is_collective_kernel(str(cases[i].name)) != cases[i].is) fail_msg("%s", cases[i].name);
}

static void collective_calls(void **state) {
  (void)state;
  static const char *const libraries[] = {"nccl:", "gloo:"}, *const calls[] = {"broadcast", "reduce", "all_reduce",
                                                                               "all_gather", "reduce_scatter"};
  for (size_t l = 0; l < 2; l++) {
    for (size_t c = 0; c < 5; c++) {
      char name[32];
      snprintf(name, sizeof name, "%s%s", libraries[l], calls[c]);
      assert_true(tg__name_is_collective_call(str(name)));
    }
  }
  assert_false(tg__name_is_collective_call(str("nccl:all_reduce_")));
  assert_false(tg__name_is_collective_call(str("nccl:")));
  assert_false(tg__name_is_collective_call(str("mpi:all_reduce")));
  assert_false(tg__name_is_collective_call(str("all_reduce")));
}

static void annotations(void **state) {
  (void)state;
  assert_true(tg__name_is_dataloader(str("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")));
  assert_false(tg__name_is_dataloader(str("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__iter__")));
  assert_true(tg__name_is_dataloader(str("enumerate(DataPipe)#anything")));
  assert_true(tg__name_is_optimizer_step(str("Optimizer.step#SGD.step")));
  assert_false(tg__name_is_optimizer_step(str("Optimizer.zero_grad#SGD.zero_grad")));
}

static void profiler_steps(void **state) {
  (void)state;
  int64_t n = -1;
  assert_true(tg__name_is_profiler_step(str("ProfilerStep#17"), &n));
  assert_int_equal(n, 17);
  assert_false(tg__name_is_profiler_step(str("ProfilerStep * #3"), &n));
  assert_true(tg__name_is_profiler_step(str("ProfilerStep # 3rd"), &n));
  assert_int_equal(n, 3);
  assert_false(tg__name_is_profiler_step(str(" ProfilerStep#3"), &n));
  assert_false(tg__name_is_profiler_step(str("ProfilerStep#"), &n));
  assert_false(tg__name_is_profiler_step(str("ProfilerStep#x"), &n));
  assert_false(tg__name_is_profiler_step(str("ProfilerStep#99999999999999999999"), &n));
}

static void kernel_types(void **state) {
  (void)state;
  static const struct {
    const char *cat, *name, *type;
  } cases[] = {
      {"kernel", "gemm", "COMPUTATION"},
      {"kernel", "ncclDevKernel_AllGather", "COMMUNICATION"},
      {"kernel", "Memcpy-like kernel", "COMPUTATION"}, /* the category decides, not the name */
      {"gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "MEMORY"},
      {"Memset", "ncclMemset", "MEMORY"},
      {"mtia_ccp_events", "matmul", "COMPUTATION"},
      {"mtia_ccp_events", "nccl_all_reduce", "COMMUNICATION"},
      {"mtia_ccp_events", "hipMemcpy", "COMMUNICATION"},
      {"mtia_ccp_events", "dma copy", "MEMORY"},
      {"mtia_ccp_events", "wait dma", "OTHER"},
      {"mtia_ccp_events", "runFunction - x", "OTHER"},
      {"mtia_ccp_events", "cudaXLaunchKernel", "OTHER"},
      {"mtia_ccp_events", "Event Sync", "OTHER"},
  };
  enum { COUNT = sizeof cases / sizeof *cases };
  struct mini *m = mini_new();
  const uint32_t track = mini_stream(m, 0, 7);
  for (int i = 0; i < COUNT; i++) mini_slice(m, track, cases[i].cat, cases[i].name, i, 1);
  const struct tg__columns *t = mini_finish(m);
  struct tg__names names;
  assert_true(tg__names_open(&names, t));
  for (int i = 0; i < COUNT; i++) {
    assert_string_equal(tg__kernel_type(t, mini_id(m, i)), cases[i].type);
    assert_string_equal(tg__names_kernel_type(&names, mini_id(m, i)), cases[i].type);
  }
  assert_int_equal(tg__names_of(&names, mini_text(m, "gemm")), TG__NAME_KNOWN);
  tg__names_close(&names);
  mini_free(m);
}

static void frames_of_the_program(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool is;
  } cases[] = {
      {"train.py(12): step", true},
      {"pytorch/train.py(12): step", true}, /* a folder whose name ends like torch's */
      {"lightning/pytorch/trainer/call.py(49): _call", true},
      {"torch/nn/modules/linear.py(134): forward", false},
      {"/src/torch/nn/modules/linear.py(134): forward", false},
      {"/usr/lib/python3.11/random.py(3): seed", false},
      {"/env/site-packages/lightning/call.py(49): _call", false},
      {"<frozen importlib._bootstrap>(1207): _handle_fromlist", false},
      {"tachograph/_launch/steps.py(9): sign", false},
      {"<built-in function len>", false},
      {"multiprocessing/process.py(108): run", false},
      {"threading.py(975): run", false},
      {"work/threading.py(9): run", true},
      {"/tmp/torchinductor_me/ol/colm4yf2bmsy7mabcdefghijklmnopqrstuvwxyz234567abcdef.py(99): call", false},
      {"colm4yf2bmsy7mabcdefghijklmnopqrstuvwxyz234567abcdefg.py(99): call", true}, /* a character too many */
      {"dolm4yf2bmsy7mabcdefghijklmnopqrstuvwxyz234567abcdef.py(99): call", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(tg__is_user_frame(str(cases[i].name)), cases[i].is);
  const struct tg__str frame = tg__user_frame_of_stack(str("torch/a.py(1): f;pytorch/b.py(2): g;c.py(3): h"));
  assert_true(tg__str_eq(frame, TG_STR("pytorch/b.py(2): g")));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(collective_kernels), cmocka_unit_test(collective_calls),
                                     cmocka_unit_test(annotations),        cmocka_unit_test(profiler_steps),
                                     cmocka_unit_test(kernel_types),       cmocka_unit_test(frames_of_the_program)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
