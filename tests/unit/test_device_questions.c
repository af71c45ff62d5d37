/* The questions about devices: whichever allocation fails, under whichever rules, they say so and leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/mini_trace.h"

/* Two streams, copies and collectives, launched by operators inside a Python frame. */
static struct tg__columns *make(struct mini *m) {
  static const char *const names[] = {"gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)"};
  const uint32_t cpu = mini_thread(m, 1, 10), streams[] = {mini_stream(m, 0, 7), mini_stream(m, 0, 20)};
  mini_slice(m, cpu, "python_function", "train.py(3): f", 0, 900000);
  for (int i = 0; i < 9; i++) {
    const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 10000 * i + 1000, 9000);
    const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 10000 * i + 2000, 1000);
    mini_arg_int(m, "correlation", i + 1);
    const int work =
        mini_slice(m, streams[i % 2], i % 3 == 2 ? "gpu_memcpy" : "kernel", names[i % 3], 15000 * i + 5000, 12000);
    mini_arg_int(m, "stream", i % 2 ? 20 : 7);
    mini_arg_int(m, "correlation", i + 1);
    if (i % 3 == 2) mini_arg_dec(m, "memory bandwidth (GB/s)", 25, 1);
    if (i % 3 == 2) mini_arg_int(m, "bytes", 30000);
    mini_cause(m, call, op);
    mini_cause(m, work, call);
  }
  return mini_finish(m);
}

static void fail_everywhere(struct tg__columns *t, const char *question, const char *by, const char *rules) {
  const struct tg_arg args[] = {{"rules", rules}, {"by", by}};
  assert_true(mini_starve(t, question, args, by ? 2 : 1) > 5);
}

static void test_no_memory(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"breakdown", NULL},        {"overlap", NULL},          {"kernel_types", NULL},
      {"kernel_breakdown", NULL}, {"idle", "stream"},         {"idle", "interval"},
      {"queue", "series"},        {"queue", "full"},          {"copy_bandwidth", "summary"},
      {"copy_bandwidth", "op"},   {"launch_stats", "kernel"}, {"launch_stats", "event"}};
  struct mini *m = mini_new();
  struct tg__columns *t = make(m);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fail_everywhere(t, cases[i][0], cases[i][1], "exact");
    fail_everywhere(t, cases[i][0], cases[i][1], "hta");
  }
  mini_free(m);
}

/* 9 pieces of 12 us, one every 15 us, on two streams in turn; 3 us between them on the
 * whole, 18 us on each stream. */
static void test_streams_apart(void **state) {
  (void)state;
  struct mini *m = mini_new();
  struct tg__columns *t = make(m);
  struct tg_table *all = mini_ask(t, "breakdown", NULL), *each = mini_ask(t, "idle", "by", "cause", NULL);
  assert_int_equal(mini_int(all, 0, "kernel_time_ns"), 132000);
  assert_int_equal(mini_int(all, 0, "busy_ns"), 108000);
  assert_int_equal(mini_int(all, 0, "idle_ns"), 24000);
  int64_t idle = 0;
  for (size_t i = 0; i < each->rows; i++) idle += mini_int(each, i, "idle_ns");
  assert_int_equal(idle, 7 * 18000);
  tg__table_free(all);
  tg__table_free(each);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory), cmocka_unit_test(test_streams_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
