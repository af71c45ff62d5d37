/* Tests of the question overview and of how busy a device is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/device/gpu.h"
#include "unit/mini_trace.h"

static const struct tg__column *column(const struct tg_table *t, const char *name) {
  return &t->columns[tg__table_column_index(t, name)];
}

/* The one row of a group and quantity. */
static size_t row_of(const struct tg_table *t, const char *group, const char *quantity) {
  size_t found = SIZE_MAX;
  for (size_t i = 0; i < t->rows; i++) {
    if (strcmp(mini_cell(t, i, "group"), group) != 0 || strcmp(mini_cell(t, i, "quantity"), quantity) != 0) continue;
    if (found != SIZE_MAX) fail_msg("two rows for %s %s", group, quantity);
    found = i;
  }
  if (found == SIZE_MAX) fail_msg("no row for %s %s", group, quantity);
  return found;
}
static double value_of(const struct tg_table *t, const char *group, const char *quantity) {
  return mini_real(t, row_of(t, group, quantity), "value");
}
static const char *text_of(const struct tg_table *t, const char *group, const char *quantity) {
  return mini_cell(t, row_of(t, group, quantity), "text");
}

static void summary(void **state) {
  (void)state;
  struct mini *m = mini_new();
  struct tg__rank *rank = mini_rank(m, 5);
  struct tg__device device = {.id = 0,
                              .total_memory_bytes = 1000,
                              .sm_count = 80,
                              .compute_major = -1,
                              .compute_minor = -1,
                              .max_threads_per_sm = -1,
                              .warp_size = 32};
  device.name = mini_text(m, "Tesla");
  struct tg__meta host = {TG__K_HOST_NAME, mini_text(m, "\"box\""), false};
  rank->world_size = 8, rank->devices = &device, rank->device_count = 1, rank->meta = &host, rank->meta_count = 1;
  const int64_t origin = 1700000000000000001; /* no double holds this */
  const uint32_t cpu = mini_thread(m, 1, 2);
  mini_slice(m, cpu, "cpu_op", "a", origin, 10);
  mini_slice(m, cpu, "cpu_op", "b", origin + 20, 30);
  mini_slice(m, cpu, "CPU_OP", "c", origin + 25, 1); /* categories are counted as written */
  mini_slice(m, cpu, NULL, "d", origin + 26, 1);
  mini_mark(m, cpu, "x", "mark", 'i', origin);
  mini_loss(m, TG__LOSS_skipped_syntax, 2, 9);
  struct tg_table *t = mini_ask(mini_finish(m), "overview", NULL);
  assert_true(value_of(t, "summary", "events") == 7); /* five and the two that were skipped */
  assert_true(value_of(t, "summary", "events_kept") == 5);
  assert_true(value_of(t, "summary", "slices") == 4);
  assert_true(value_of(t, "summary", "marks") == 1);
  assert_true(value_of(t, "summary", "complete_events") == 4);
  assert_true(value_of(t, "summary", "rank") == 5);
  assert_true(value_of(t, "summary", "world_size") == 8);
  assert_true(value_of(t, "summary", "span_ns") == 50);
  assert_true(isnan(value_of(t, "summary", "base_ns")));
  assert_true(value_of(t, "summary", "steps") == 0);
  assert_string_equal(text_of(t, "summary", "first_ns"), "1700000000000000001");
  assert_string_equal(text_of(t, "summary", "last_ns"), "1700000000000000051");
  assert_string_equal(text_of(t, "summary", "host"), "box");
  assert_true(value_of(t, "category", "cpu_op") == 2);
  assert_true(value_of(t, "category", "CPU_OP") == 1);
  assert_true(value_of(t, "category", "None") == 1);
  assert_true(value_of(t, "phase", "X") == 4);
  assert_true(value_of(t, "phase", "i") == 1);
  assert_string_equal(text_of(t, "device", "0"), "Tesla");
  assert_true(value_of(t, "property", "0 sm_count") == 80);
  assert_true(value_of(t, "loss", "skipped_syntax") == 2);
  for (size_t i = 0; i < t->rows; i++) {
    assert_true(strcmp(mini_cell(t, i, "group"), "gpu") != 0);
    assert_int_equal(column(t, "rank")->ints[i], 5);
  }
  tg__table_free(t);
  mini_free(m);
}

/* One step from 0 to 100. Kernels of device 0: [10,30) with 0.5 blocks per SM, [20,60) with 0.75, [90,130) with 2,
 * all launched in the step, which therefore lasts to 130. Busy: 10..60 and 90..130 = 90 of 130. Blocks: 10 × 0.5 +
 * 10 × min(1, 1.25) + 30 × 0.75 + 40 × min(1, 2) = 5 + 10 + 22.5 + 40 = 77.5 of 130. Occupancy: (20 × 50 + 40 × 25)
 * / 60; the third states none. */
static void busy_device(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), a = mini_stream(m, 0, 7), b = mini_stream(m, 0, 8),
                 second = mini_stream(m, 1, 7);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#1", 0, 100);
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 1, 2);
  const struct {
    uint32_t track;
    int64_t start, dur, blocks, occupancy;
  } kernels[] = {{a, 10, 20, 50, 50}, {b, 20, 40, 75, 25}, {a, 90, 40, 200, -1}, {second, 0, 13, 0, -1}};
  for (int i = 0; i < 4; i++) {
    mini_cause(m, mini_slice(m, kernels[i].track, "kernel", "k", kernels[i].start, kernels[i].dur), call);
    if (kernels[i].blocks) mini_arg_dec(m, "blocks per SM", kernels[i].blocks, 2);
    if (kernels[i].occupancy >= 0) mini_arg_int(m, "est. achieved occupancy %", kernels[i].occupancy);
  }
  mini_slice(m, a, "gpu_memcpy", "copy", 60, 30); /* a copy is no kernel */
  struct tg__columns *t = mini_finish(m);
  struct tg__gpu *devices;
  size_t count;
  assert_int_equal(tg__gpu_measure(t, 0, &devices, &count), TG_OK);
  assert_int_equal(count, 2);
  assert_int_equal(devices[0].device, 0);
  assert_int_equal(devices[0].kernels, 3);
  assert_int_equal(devices[0].window.end_ns, 130);
  assert_true(fabs(devices[0].utilization - 90.0 / 130) < 1e-15);
  assert_true(fabs(devices[0].sm_efficiency - 77.5 / 130) < 1e-15);
  assert_true(fabs(devices[0].occupancy_pct - 2000.0 / 60) < 1e-13);
  assert_true(fabs(devices[1].utilization - 0.1) < 1e-15);
  assert_true(isnan(devices[1].sm_efficiency) && isnan(devices[1].occupancy_pct));
  tg__free(devices);
  struct tg_table *table = mini_ask(t, "overview", NULL);
  assert_true(fabs(value_of(table, "gpu", "1 utilization") - 10) < 1e-13);
  assert_true(isnan(value_of(table, "gpu", "1 occupancy")));
  tg__table_free(table);
  mini_free(m);
}

/* Samples of 40 and 20 % and of 300 and 301 W; two reasons of throttling, which have no mean; another rank's, none. */
static void test_sampled(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t value;
  } samples[] = {{"GPU 0 utilisation %", 40},
                 {"GPU 0 power mW", 300000},
                 {"GPU 0 throttle reasons", 4},
                 {"GPU 0 utilisation %", 20},
                 {"GPU 0 power mW", 301000},
                 {"GPU 0 throttle reasons", 8},
                 {"GPU 1 SM clock MHz", 1980},
                 {"GPU", 7},
                 {"GPU 1", 7},
                 {"GPU 1 ", 7}};
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 0, 100);
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    mini_mark(m, cpu, "counter", samples[i].name, 'C', 10);
    mini_arg_int(m, "value", samples[i].value);
  }
  struct tg_table *const t = mini_ask(mini_finish(m), "overview", NULL);
  assert_true(value_of(t, "gpu", "0 sampled utilisation") == 30);
  assert_true(value_of(t, "gpu", "0 sampled power") == 300.5);
  assert_true(value_of(t, "gpu", "1 sampled SM clock") == 1980);
  size_t rows = 0;
  for (size_t i = 0; i < t->rows; i++) rows += strcmp(mini_cell(t, i, "group"), "gpu") == 0;
  assert_int_equal(rows, 3);
  tg__table_free(t);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(summary), cmocka_unit_test(busy_device),
                                     cmocka_unit_test(test_sampled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
