/* The rows HolisticTraceAnalysis makes of a trace: rounding, links, iterations, step filter. Numbers worked out by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyze/compat/hta/hta_rows.h"
#include "unit/mini_trace.h"

static int slice_with(struct mini *m, uint32_t track, const char *cat, const char *name, int64_t start, int64_t dur,
                      int64_t stream, int64_t correlation) {
  const int s = mini_slice(m, track, cat, name, start, dur);
  if (stream >= 0) mini_arg_int(m, "stream", stream);
  if (correlation >= 0) mini_arg_int(m, "correlation", correlation);
  return s;
}

static const struct tg__hta_row *row_of(const struct tg__hta *h, const struct mini *m, int slice) {
  for (size_t i = 0; i < h->ranks[0].count; i++)
    if (h->ranks[0].rows[i].slice == mini_id(m, slice)) return &h->ranks[0].rows[i];
  return NULL;
}

/* 1000.2 us + 0.5 us: up to 1001, the end 1000.7 down to 1000. 1002.0 + 3.9: 1002 to 1005. The first start, 1001, is 0.
 */
static void test_rounding(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  const int a = mini_slice(m, cpu, "cpu_op", "a", 1000200, 500), b = mini_slice(m, cpu, "cpu_op", "b", 1002000, 3900);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  assert_true(h.ranks[0].is_rounded);
  assert_int_equal(h.min_ts_us, 1001);
  assert_int_equal(row_of(&h, m, a)->ts_us, 0);
  assert_int_equal(row_of(&h, m, a)->dur_us, -1);
  assert_int_equal(row_of(&h, m, b)->ts_us, 1);
  assert_int_equal(row_of(&h, m, b)->dur_us, 3);
  assert_int_equal(tg__hta_dur_ns(&h, &h.ranks[0], row_of(&h, m, b)), 3000);
  tg__hta_close(&h);
  mini_free(m);
}

/* Whole starts: nothing is rounded, though a duration has a fraction. Events without a category, and the profiler's
 * span, are no rows. */
static void test_whole_times(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  const int a = mini_slice(m, cpu, "cpu_op", "a", 5000, 1500);
  mini_slice(m, cpu, "Trace", "PyTorch Profiler (0)", 1000, 90000);
  mini_mark(m, cpu, "cpu_instant_event", "mark", 'i', 2000);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  assert_int_equal(h.ranks[0].count, 1);
  assert_false(h.ranks[0].is_rounded);
  assert_int_equal(h.min_ts_us, 5);
  assert_int_equal(row_of(&h, m, a)->index, 0);
  assert_int_equal(tg__hta_dur_ns(&h, &h.ranks[0], row_of(&h, m, a)), 1500);
  tg__hta_close(&h);
  mini_free(m);
}

/* One call with two kernels: both point to it, it points to the last. A kernel whose call is not there has 0, a host
 * call without a correlation -1. */
static void test_links(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 0, 90000);
  mini_arg_int(m, "External id", 1); /* args tell the place in the file */
  const int call = slice_with(m, cpu, "cuda_runtime", "cudaGraphLaunch", 10000, 5000, -1, 4);
  const int one = slice_with(m, gpu, "kernel", "one", 20000, 5000, 7, 4),
            two = slice_with(m, gpu, "kernel", "two", 30000, 5000, 7, 4);
  const int lone = slice_with(m, gpu, "kernel", "lone", 40000, 5000, 7, 9);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  const struct tg__hta_row *rows = h.ranks[0].rows;
  assert_int_equal(row_of(&h, m, call)->index, 1);
  assert_int_equal(row_of(&h, m, one)->index_correlation, 1);
  assert_int_equal(row_of(&h, m, two)->index_correlation, 1);
  assert_int_equal(row_of(&h, m, call)->index_correlation, 3);
  assert_int_equal(rows[row_of(&h, m, call)->link].slice, mini_id(m, two));
  assert_int_equal(row_of(&h, m, lone)->index_correlation, 0);
  assert_int_equal(row_of(&h, m, lone)->link, TG_NONE);
  assert_int_equal(row_of(&h, m, op)->index_correlation, -1);
  tg__hta_close(&h);
  mini_free(m);
}

struct steps {
  struct mini *m;
  int before, first, second, call[2], kernel[2], lone, zero;
};

/* Steps 5 and 6 of 100 us, a launch and a kernel in each, work before them and on stream 0. */
static struct steps two_steps(void) {
  struct steps s = {.m = mini_new()};
  const uint32_t cpu = mini_thread(s.m, 1, 10), gpu = mini_stream(s.m, 0, 7), zero = mini_stream(s.m, 0, 0);
  s.before = mini_slice(s.m, cpu, "cpu_op", "early", 1000, 5000);
  s.first = mini_slice(s.m, cpu, "user_annotation", "ProfilerStep#5", 10000, 100000);
  s.second = mini_slice(s.m, cpu, "user_annotation", "ProfilerStep#6", 110000, 100000);
  for (int k = 0; k < 2; k++) {
    s.call[k] = slice_with(s.m, cpu, "cuda_runtime", "cudaLaunchKernel", 20000 + 100000 * k, 5000, -1, k + 1);
    s.kernel[k] = slice_with(s.m, gpu, "kernel", "k", 90000 + 100000 * k, 50000, 7, k + 1);
  }
  s.lone = slice_with(s.m, gpu, "kernel", "lone", 30000, 1000, 7, 77);
  s.zero = slice_with(s.m, zero, "kernel", "zero", 31000, 1000, 0, 78);
  return s;
}

static void test_iterations(void **state) {
  (void)state;
  struct steps s = two_steps();
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(s.m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  assert_int_equal(row_of(&h, s.m, s.before)->iteration, -1);
  assert_int_equal(row_of(&h, s.m, s.call[0])->iteration, 5);
  assert_int_equal(row_of(&h, s.m, s.kernel[0])->iteration, 5); /* it ends in step 6 */
  assert_int_equal(row_of(&h, s.m, s.kernel[1])->iteration, 6);
  assert_int_equal(row_of(&h, s.m, s.second)->iteration, 6);
  assert_int_equal(row_of(&h, s.m, s.lone)->iteration, -1);
  assert_int_equal(row_of(&h, s.m, s.zero)->iteration, TG_NULL_INT);
  tg__hta_close(&h);
  mini_free(s.m);
}

/* The last step goes, and what it launched; what came before the first stays. Kernels stand first, those without a
 * call are gone. */
static void test_step_filter(void **state) {
  (void)state;
  struct steps s = two_steps();
  struct tg__columns *t = mini_finish(s.m);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, t, TG_NONE, TG__HTA_WITHOUT_LAST_STEP), TG_OK);
  assert_int_equal(h.ranks[0].count, 4);
  assert_int_equal(h.ranks[0].rows[0].slice, mini_id(s.m, s.kernel[0]));
  assert_int_equal(h.ranks[0].rows[1].slice, mini_id(s.m, s.before));
  assert_int_equal(h.ranks[0].rows[2].slice, mini_id(s.m, s.first));
  assert_int_equal(h.ranks[0].rows[3].slice, mini_id(s.m, s.call[0]));
  assert_int_equal(h.ranks[0].rows[0].link, 3);
  assert_int_equal(h.ranks[0].rows[3].link, 0);
  tg__hta_close(&h);
  assert_int_equal(tg__hta_open(&h, t, TG_NONE, TG__HTA_WITH_LAST_STEP), TG_OK);
  assert_int_equal(h.ranks[0].count, 7);
  assert_null(row_of(&h, s.m, s.lone));
  tg__hta_close(&h);
  mini_free(s.m);
}

/* Two calls of one correlation: its join doubles the kernel. */
static void test_filter_multiplies(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  for (int k = 0; k < 3; k++)
    mini_slice(m, cpu, "user_annotation", k == 2 ? "ProfilerStep#2" : "ProfilerStep#1", 100000 * k, 90000);
  slice_with(m, cpu, "cuda_runtime", "cudaLaunchKernel", 1000, 500, -1, 3);
  slice_with(m, cpu, "cuda_runtime", "cudaLaunchKernel", 2000, 500, -1, 3);
  const int kernel = slice_with(m, gpu, "kernel", "k", 5000, 1000, 7, 3);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_WITHOUT_LAST_STEP), TG_OK);
  assert_int_equal(h.ranks[0].count, 6);
  for (size_t i = 0; i < 2; i++) assert_int_equal(h.ranks[0].rows[i].slice, mini_id(m, kernel));
  assert_int_not_equal(h.ranks[0].rows[2].slice, mini_id(m, kernel));
  tg__hta_close(&h);
  mini_free(m);
}

/* Where steps overlap the later one of the file holds; a gap between steps is in none. */
static void test_steps_that_overlap(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#1", 0, 100000);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#2", 50000, 20000);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#3", 60000, 5000);
  static const struct {
    int64_t at, step;
  } cases[] = {{10000, 1}, {50000, 2}, {60000, 3}, {65000, 2}, {70000, 1}, {99000, 1}, {100000, -1}};
  int ops[7];
  for (size_t i = 0; i < 7; i++) ops[i] = mini_slice(m, cpu, "cpu_op", "op", cases[i].at, 10);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  for (size_t i = 0; i < 7; i++) assert_int_equal(row_of(&h, m, ops[i])->iteration, cases[i].step);
  tg__hta_close(&h);
  mini_free(m);
}

static void test_types(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum tg__work_type type;
  } cases[] = {{"ncclDevKernel_AllReduce", TG__TYPE_COMMUNICATION},
               {"hipMemcpyAsync", TG__TYPE_COMMUNICATION},
               {"Memcpy HtoD", TG__TYPE_MEMORY},
               {"dma_copy", TG__TYPE_MEMORY},
               {"admanager_kernel", TG__TYPE_OTHER},
               {"kernelSync_x", TG__TYPE_OTHER},
               {"Stream Wait Event", TG__TYPE_OTHER},
               {"cudaLaunchKernel", TG__TYPE_OTHER},
               {"nvshmem_put", TG__TYPE_COMPUTATION},
               {"gemm", TG__TYPE_COMPUTATION},
               {"my_ncclKernel", TG__TYPE_COMMUNICATION}};
  enum { CASES = sizeof cases / sizeof *cases };
  struct mini *m = mini_new();
  const uint32_t gpu = mini_stream(m, 0, 7);
  int slices[CASES];
  for (size_t i = 0; i < CASES; i++)
    slices[i] = slice_with(m, gpu, "kernel", cases[i].name, 1000 * (int64_t)i, 500, 7, -1);
  struct tg__hta h;
  assert_int_equal(tg__hta_open(&h, mini_finish(m), TG_NONE, TG__HTA_EVERY_ROW), TG_OK);
  for (size_t i = 0; i < CASES; i++) assert_int_equal(tg__hta_type(&h, row_of(&h, m, slices[i])), cases[i].type);
  tg__hta_close(&h);
  mini_free(m);
}

/* Whichever allocation fails, it says so and leaks nothing. */
static void test_no_memory(void **state) {
  (void)state;
  struct steps s = two_steps();
  struct tg__columns *t = mini_finish(s.m);
  struct tg__hta h;
  int failed = 0;
  for (long k = 0; k < 100; k++) {
    tg__alloc_fail_after(k);
    const enum tg_err err = tg__hta_open(&h, t, TG_NONE, TG__HTA_WITHOUT_LAST_STEP);
    tg__alloc_fail_after(-1);
    tg__hta_close(&h);
    if (!err) break;
    assert_int_equal(err, TG_MEMORY);
    failed++;
  }
  assert_in_range(failed, 10, 99);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounding),
                                     cmocka_unit_test(test_whole_times),
                                     cmocka_unit_test(test_links),
                                     cmocka_unit_test(test_iterations),
                                     cmocka_unit_test(test_step_filter),
                                     cmocka_unit_test(test_filter_multiplies),
                                     cmocka_unit_test(test_steps_that_overlap),
                                     cmocka_unit_test(test_types),
                                     cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
