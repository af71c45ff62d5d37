/* The questions critical_path and cupti: whichever allocation fails they say so and leak nothing; the order of equal
 * keys is numpy's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyze/table/numpy_sort.h"
#include "unit/mini_trace.h"

/* Two threads, two streams, an event recorded and waited for, a synchronisation with a record and one without. */
static struct tg__columns *make(struct mini *m) {
  static const char *const calls[] = {"cudaLaunchKernel",     "cudaEventRecord",  "cudaMemcpyAsync",
                                      "cudaStreamWaitEvent",  "cudaLaunchKernel", "cudaStreamSynchronize",
                                      "cudaDeviceSynchronize"};
  const uint32_t cpu[] = {mini_thread(m, 1, 10), mini_thread(m, 1, 11)},
                 gpu[] = {mini_stream(m, 0, 7), mini_stream(m, 0, 20)};
  int made[8];
  mini_slice(m, cpu[0], "user_annotation", "ProfilerStep#1", 0, 200000);
  const int op = mini_slice(m, cpu[0], "cpu_op", "aten::forward", 1000, 90000);
  mini_slice(m, cpu[1], "cpu_op", "autograd::engine", 100000, 9000);
  for (int i = 0; i < 7; i++) {
    made[i] = mini_slice(m, cpu[i == 4], "cuda_runtime", calls[i], 2000 + 10000 * i, 9000);
    mini_arg_int(m, "correlation", i + 1);
    mini_cause(m, made[i], op);
  }
  for (int i = 0; i < 5; i += 2) {
    const int work = mini_slice(m, gpu[i == 4], i == 2 ? "gpu_memcpy" : "kernel", i == 2 ? "Memcpy HtoD" : "gemm",
                                5000 + 12000 * i, 12000);
    mini_arg_int(m, "stream", i == 4 ? 20 : 7);
    mini_arg_int(m, "correlation", i + 1);
    mini_cause(m, work, made[i]);
  }
  const int wait = mini_slice(m, gpu[1], "cuda_sync", "Stream Wait Event", 33000, 1000);
  mini_arg_int(m, "stream", 20);
  mini_arg_int(m, "correlation", 4);
  mini_arg_int(m, "wait_on_stream", 7);
  mini_arg_int(m, "wait_on_cuda_event_record_corr_id", 2);
  mini_cause(m, wait, made[1]);
  mini_slice(m, gpu[0], "cuda_sync", "Stream Sync", 53000, 7000);
  mini_arg_int(m, "stream", 7);
  mini_arg_int(m, "correlation", 6);
  for (int i = 0; i < 2; i++) {
    mini_slice(m, gpu[0], "cuda_profiler_range", "gemm", 150000 + 1000 * i, 1000);
    mini_arg_int(m, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 5);
  }
  return mini_finish(m);
}

static void test_no_memory(void **state) {
  (void)state;
  static const char *const bys[] = {"op", "bound", "kind", "event", "edge", "rank"}, *const counters[] = {
                                                                                         "range", "counter", "op",
                                                                                         "total"};
  struct mini *m = mini_new();
  struct tg__columns *t = make(m);
  for (size_t i = 0; i < sizeof bys / sizeof *bys; i++) {
    struct tg_arg args[] = {{"by", bys[i]}, {"rules", "exact"}, {"annotation", "ProfilerStep"}, {"launch_edges", "1"}};
    assert_true(mini_starve(t, "critical_path", args, 4) > 5);
    args[1].value = "hta";
    assert_true(mini_starve(t, "critical_path", args, 4) > 5);
  }
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    const struct tg_arg args[] = {{"by", counters[i]}};
    assert_true(mini_starve(t, "cupti", args, 1) > 5);
  }
  mini_free(m);
}

/* What numpy 1.24 and 1.26 (without AVX-512) give for the same keys: too few to be split often; two runs laid in one
 * another; and enough of these that its quicksort gives up and turns to a heap sort. */
static void test_order_of_equal_keys(void **state) {
  (void)state;
  static const uint32_t few[] = {0,  20, 15, 30, 10, 25, 35, 5,  23, 8, 33, 28, 13, 3,  38, 18, 6,  21, 1, 36,
                                 16, 26, 11, 31, 34, 29, 19, 14, 9,  4, 24, 39, 27, 22, 17, 12, 32, 7,  2, 37};
  static const uint32_t runs[] = {0,  1,  30, 31, 32, 2,  3,  33, 34, 35, 4,  5,  36, 37, 38, 40, 41, 7,  6,  39,
                                  42, 43, 9,  8,  44, 46, 47, 45, 10, 11, 49, 50, 12, 13, 48, 14, 15, 53, 52, 51,
                                  56, 55, 54, 16, 17, 57, 59, 19, 18, 58, 21, 20, 23, 22, 25, 24, 27, 26, 28, 29};
  int64_t keys[600];
  uint32_t order[600];
  for (int i = 0; i < 40; i++) keys[i] = i * 7 % 5;
  tg__numpy_argsort(keys, order, 40);
  assert_memory_equal(order, few, sizeof few);
  for (int i = 0; i < 60; i++) keys[i] = i < 30 ? i / 2 : (i - 30) / 3;
  tg__numpy_argsort(keys, order, 60);
  assert_memory_equal(order, runs, sizeof runs);
  for (int i = 0; i < 600; i++) keys[i] = i % 300 / 2;
  tg__numpy_argsort(keys, order, 600);
  uint64_t sum = 0; /* of all 600 positions, in order */
  for (int i = 0; i < 600; i++) sum = (sum * 31 + order[i]) % 1000003;
  assert_int_equal(sum, 73529);
  tg__numpy_argsort(keys, order, 0);
  tg__numpy_argsort(keys, order, 1);
  assert_int_equal(order[0], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory), cmocka_unit_test(test_order_of_equal_keys)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
