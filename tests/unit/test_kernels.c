/* kernels and launches: device work by kernel, operator, configuration and stream; host calls behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "unit/mini_trace.h"

#include <math.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static int kernel(struct mini *m, uint32_t stream, int call, const char *name, int64_t at, int64_t dur) {
  const int slice = mini_slice(m, stream, "kernel", name, at, dur);
  if (call >= 0) mini_cause(m, slice, call);
  return slice;
}

static int host_call(struct mini *m, uint32_t track, int op, int64_t at) {
  const int call = mini_slice(m, track, "cuda_runtime", "cudaLaunchKernel", at, 1);
  if (op >= 0) mini_cause_by_id(m, call, op);
  return call;
}

static void shape(struct mini *m, const char *block) {
  mini_arg_raw(m, "grid", "[16, 1, 1]");
  mini_arg_raw(m, "block", block);
  mini_arg_int(m, "registers per thread", 18);
  mini_arg_int(m, "shared memory", 0);
}

/* Inputs and values of the TensorBoard plugin's test_group_by_kernel_columns. */
static void test_by_configuration(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int op1 = mini_slice(m, cpu, "cpu_op", "op1", 0, 100), op2 = mini_slice(m, cpu, "cpu_op", "op2", 200, 100);
  static const char small[] = "[16, 16, 16]", large[] = "[16, 16, 64]";
  const struct {
    int op;
    const char *block;
    int64_t dur;
  } runs[] = {{op1, small, 15}, {op1, small, 10}, {op1, large, 13}, {op2, small, 17}};
  for (int i = 0; i < 4; i++) {
    const int call = host_call(m, cpu, runs[i].op, runs[i].op == op2 ? 210 : 10 * i);
    kernel(m, gpu, call, "kernel1", 1000 + 100 * i, runs[i].dur);
    shape(m, runs[i].block);
  }
  struct tg_table *k = mini_ask(mini_finish(m), "kernels", "by", "config", NULL);
  assert_int_equal(k->rows, 3);
  const size_t first = mini_row(k, "group", "op op1 grid [16, 1, 1] block [16, 16, 16] registers 18 shared memory 0");
  assert_int_equal(mini_int(k, first, "calls"), 2);
  assert_int_equal(mini_int(k, first, "total_ns"), 25);
  assert_near(mini_real(k, first, "mean_ns"), 12.5);
  assert_int_equal(mini_int(k, first, "min_ns"), 10);
  assert_int_equal(mini_int(k, first, "max_ns"), 15);
  assert_near(mini_real(k, first, "std_ns"), sqrt(12.5));
  assert_near(mini_real(k, first, "pct"), 100.0 * 25 / 55);
  assert_int_equal(
      mini_int(k, mini_row(k, "group", "op op1 grid [16, 1, 1] block [16, 16, 64] registers 18 shared memory 0"),
               "total_ns"),
      13);
  assert_int_equal(
      mini_int(k, mini_row(k, "group", "op op2 grid [16, 1, 1] block [16, 16, 16] registers 18 shared memory 0"),
               "total_ns"),
      17);
  tg__table_free(k);
  mini_free(m);
}

/* …_invalid_input: each kernel lacks another of the four, so none is the same as another. */
static void test_by_configuration_with_holes(void **state) {
  struct mini *m = mini_new();
  const uint32_t gpu = mini_stream(m, 0, 7);
  for (int i = 0; i < 5; i++) {
    kernel(m, gpu, -1, "kernel1", 100 * i, i + 1);
    if (i != 0 && i != 4) mini_arg_raw(m, "grid", "[16, 1, 1]");
    if (i != 1 && i != 4) mini_arg_raw(m, "block", "[16, 16, 16]");
    if (i != 2 && i != 4) mini_arg_int(m, "registers per thread", 18);
    if (i != 3 && i != 4) mini_arg_int(m, "shared memory", 0);
  }
  struct tg_table *k = mini_ask(mini_finish(m), "kernels", "by", "config", NULL);
  assert_int_equal(k->rows, 5);
  assert_int_equal(mini_int(k, mini_row(k, "group", "op ? grid ? block ? registers ? shared memory ?"), "total_ns"), 5);
  assert_int_equal(mini_int(k,
                            mini_row(k, "group", "op ? grid [16, 1, 1] block [16, 16, 16] registers ? shared memory 0"),
                            "total_ns"),
                   3);
  tg__table_free(k);
  mini_free(m);
}

static void gpu_kernel(struct mini *m, uint32_t gpu, int call, const char *name, int64_t at, int64_t dur,
                       int64_t blocks_tenths, int64_t occupancy_tenths) {
  kernel(m, gpu, call, name, at, dur);
  mini_arg_dec(m, "blocks per SM", blocks_tenths, 1);
  mini_arg_dec(m, "est. achieved occupancy %", occupancy_tenths, 1);
}

/* Inputs and values of test_gpu_utilization. */
static void test_means_are_weighted_by_duration(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 1, 7);
  const int mat_mul = mini_slice(m, cpu, "cpu_op", "mat_mul", 100, 100),
            mm = mini_slice(m, cpu, "cpu_op", "mm", 120, 70);
  const int outer = host_call(m, cpu, mat_mul, 101), inner = host_call(m, cpu, mm, 130);
  gpu_kernel(m, gpu, inner, "A", 130, 10, 5, 6);
  gpu_kernel(m, gpu, outer, "B", 135, 15, 6, 1);
  gpu_kernel(m, gpu, outer, "B", 150, 0, 3, 2);
  gpu_kernel(m, gpu, inner, "A", 145, 25, 3, 10);
  gpu_kernel(m, gpu, outer, "A", 200, 20, 105, 3);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *names = mini_ask(t, "kernels", NULL),
                  *ops = mini_ask(t, "kernels", "by", "op", "where", "name == \"A\"", NULL);
  const size_t a = mini_row(names, "name", "A"), b = mini_row(names, "name", "B");
  assert_near(mini_real(names, a, "blocks_per_sm"), 222.5 / 55);
  assert_near(mini_real(names, a, "occupancy_pct"), 37.0 / 55);
  assert_near(mini_real(names, b, "blocks_per_sm"), 0.6);
  assert_near(mini_real(names, b, "occupancy_pct"), 0.1);
  assert_int_equal(ops->rows, 2);
  const size_t in_mm = mini_row(ops, "group", "mm"), in_mat_mul = mini_row(ops, "group", "mat_mul");
  assert_near(mini_real(ops, in_mm, "blocks_per_sm"), 12.5 / 35);
  assert_near(mini_real(ops, in_mm, "occupancy_pct"), 31.0 / 35);
  assert_near(mini_real(ops, in_mat_mul, "blocks_per_sm"), 10.5);
  assert_near(mini_real(ops, in_mat_mul, "occupancy_pct"), 0.3);
  tg__table_free(names);
  tg__table_free(ops);
  mini_free(m);
}

static void test_all_device_work_has_rows(void **state) {
  struct mini *m = mini_new();
  const uint32_t s7 = mini_stream(m, 0, 7), s20 = mini_stream(m, 0, 20);
  kernel(m, s7, -1, "gemm", 0, 10);
  kernel(m, s20, -1, "gemm", 5, 40);
  kernel(m, s20, -1, "ncclDevKernel_AllReduce", 50, 30);
  mini_slice(m, s7, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20, 6);
  mini_slice(m, s7, "gpu_memset", "Memset (Device)", 30, 4);
  mini_slice(m, s7, "gpu_user_annotation", "block", 0, 1000);
  mini_slice(m, s7, "cuda_sync", "Stream Sync", 0, 500);
  struct tg__columns *t = mini_finish(m);
  struct tg_table *k = mini_ask(t, "kernels", NULL),
                  *streams = mini_ask(t, "kernels", "by", "stream", "where", "name == \"gemm\"", NULL);
  assert_int_equal(k->rows, 4);
  assert_string_equal(mini_cell(k, 0, "name"), "gemm"); /* largest sum first */
  assert_string_equal(mini_cell(k, 0, "type"), "COMPUTATION");
  assert_string_equal(mini_cell(k, mini_row(k, "name", "ncclDevKernel_AllReduce"), "type"), "COMMUNICATION");
  const size_t copy = mini_row(k, "category", "gpu_memcpy");
  assert_string_equal(mini_cell(k, copy, "type"), "MEMORY");
  assert_true(isnan(mini_real(k, copy, "occupancy_pct")));
  assert_true(isnan(mini_real(k, copy, "std_ns")));
  assert_int_equal(k->note_count, 2); /* neither blocks per SM nor occupancy is stated */
  assert_int_equal(streams->rows, 2);
  assert_int_equal(mini_int(streams, mini_row(streams, "group", "device 0 stream 20"), "total_ns"), 40);
  assert_int_equal(mini_int(streams, mini_row(streams, "group", "device 0 stream 7"), "total_ns"), 10);
  tg__table_free(k);
  tg__table_free(streams);
  mini_free(m);
}

/* ---- launches -------------------------------------------------------------------------------- */

static struct tg__columns *launches_trace(struct mini *m) {
  const uint32_t cpu = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 0, 100);
  const int by_id = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 10, 10);
  mini_cause_by_id(m, by_id, op);
  const int around = mini_slice(m, cpu, "cuda_runtime", "cudaGraphLaunch", 30, 20);
  mini_cause(m, around, op);
  const int alone = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 200, 5);
  kernel(m, gpu, by_id, "a", 25, 100);  /* 5 after the call's end */
  kernel(m, gpu, around, "b", 40, 10);  /* before the call returns: 0 */
  kernel(m, gpu, around, "c", 150, 10); /* 100 */
  kernel(m, gpu, alone, "d", 235, 10);  /* 30 */
  kernel(m, gpu, -1, "e", 400, 10);
  return mini_finish(m);
}

static void test_launches_per_rank(void **state) {
  struct mini *m = mini_new();
  struct tg_table *l = mini_ask(launches_trace(m), "launches", NULL);
  static const struct {
    const char *column;
    int64_t value;
  } want[] = {{"device_events", 5},     {"with_host_call", 4}, {"without_host_call", 1}, {"op_by_external_id", 1},
              {"op_by_containment", 2}, {"op_by_none", 1},     {"call_ns", 10 + 20 + 5}, {"delay_max_ns", 100}};
  assert_int_equal(l->rows, 1);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_int_equal(mini_int(l, 0, want[i].column), want[i].value);
  assert_near(mini_real(l, 0, "match_pct"), 80);
  assert_near(mini_real(l, 0, "delay_mean_ns"), 135.0 / 4);
  assert_near(mini_real(l, 0, "delay_p50_ns"), 17.5);                   /* of 0 5 30 100 */
  assert_near(mini_real(l, 0, "delay_p99_ns"), 30 + 0.97 * (100 - 30)); /* at 0.99 × 3 */
  tg__table_free(l);
  mini_free(m);
}

static void test_launches_per_call_and_event(void **state) {
  struct mini *m = mini_new();
  struct tg__columns *t = launches_trace(m);
  struct tg_table *calls = mini_ask(t, "launches", "by", "call", NULL),
                  *events = mini_ask(t, "launches", "by", "event", NULL);
  assert_int_equal(calls->rows, 3);
  const size_t graph = mini_row(calls, "call", "cudaGraphLaunch");
  assert_int_equal(mini_int(calls, graph, "device_events"), 2);
  assert_near(mini_real(calls, graph, "delay_mean_ns"), 50);
  assert_int_equal(mini_int(calls, mini_row(calls, "call", "cudaLaunchKernel"), "op_by_none"), 1);
  assert_int_equal(events->rows, 5);
  const size_t c = mini_row(events, "kernel", "c"), e = mini_row(events, "kernel", "e");
  assert_string_equal(mini_cell(events, c, "call"), "cudaGraphLaunch");
  assert_string_equal(mini_cell(events, c, "op"), "aten::mm");
  assert_int_equal(mini_int(events, c, "delay_max_ns"), 100);
  assert_null(mini_cell(events, e, "call"));
  assert_null(mini_cell(events, e, "op"));
  assert_int_equal(mini_int(events, e, "without_host_call"), 1);
  assert_int_equal(mini_int(events, e, "delay_max_ns"), TG_NULL_INT);
  tg__table_free(calls);
  tg__table_free(events);
  mini_free(m);
}

static void test_launches_of_a_rank_without_device_work(void **state) {
  struct mini *m = mini_new();
  mini_rank(m, 0);
  mini_slice(m, mini_thread(m, 1, 1), "cpu_op", "aten::mm", 0, 10);
  mini_rank(m, 1);
  kernel(m, mini_stream(m, 0, 7), -1, "k", 0, 10);
  struct tg_table *l = mini_ask(mini_finish(m), "launches", NULL);
  assert_int_equal(l->rows, 1); /* rank 0 has nothing that could have been launched */
  assert_int_equal(mini_int(l, 0, "rank"), 1);
  assert_int_equal(mini_int(l, 0, "without_host_call"), 1);
  assert_near(mini_real(l, 0, "match_pct"), 0);
  tg__table_free(l);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_configuration),
      cmocka_unit_test(test_by_configuration_with_holes),
      cmocka_unit_test(test_means_are_weighted_by_duration),
      cmocka_unit_test(test_all_device_work_has_rows),
      cmocka_unit_test(test_launches_per_rank),
      cmocka_unit_test(test_launches_per_call_and_event),
      cmocka_unit_test(test_launches_of_a_rank_without_device_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
