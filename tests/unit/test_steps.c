/* The question steps, on traces written by hand. The numbers are those of the TensorBoard view's own tests where its
 * rules and ours agree; the others were added up by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ranks/ranks.h"
#include "analyze/overview/steps.h"
#include "unit/mini_trace.h"

static const char *const part_columns[] = {"kernel_ns",        "memcpy_ns",  "memset_ns",
                                           "communication_ns", "runtime_ns", "dataloader_ns",
                                           "cpu_exec_ns",      "other_ns",   "total_ns"};

static void expect_parts(const struct tg_table *t, size_t row, const int64_t expected[9]) {
  for (size_t c = 0; c < 9; c++) assert_int_equal(mini_int(t, row, part_columns[c]), expected[c]);
}
#define PARTS(t, row, ...) expect_parts(t, row, (const int64_t[9]){__VA_ARGS__})

static void expect_overlap(const struct tg_table *t, size_t row, int64_t computation, int64_t overlap,
                           int64_t communication, int64_t neither) {
  assert_int_equal(mini_int(t, row, "overlap_ns"), overlap);
  assert_int_equal(mini_int(t, row, "computation_ns") - overlap, computation);
  assert_int_equal(mini_int(t, row, "all_communication_ns") - overlap, communication);
  assert_int_equal(mini_int(t, row, "neither_ns"), neither);
}

static int launch(struct mini *m, uint32_t thread, int64_t call_at, int64_t call_dur, uint32_t stream, const char *cat,
                  int64_t at, int64_t dur) {
  const int call = mini_slice(m, thread, "cuda_runtime", "cudaLaunchKernel", call_at, call_dur);
  const int work = mini_slice(m, stream, cat, "work", at, dur);
  mini_cause(m, work, call);
  return work;
}

/* ---- what the other tool's tests ask --------------------------------------------------------- */

static void test_every_part(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123), b = mini_thread(m, 1, 456), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 50, 400);
  mini_slice(m, a, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 180);
  mini_slice(m, a, "cpu_op", "aten::to", 200, 60);
  mini_slice(m, b, "cpu_op", "aten::nll_loss_backward", 340, 70);
  launch(m, b, 360, 20, gpu, "gpu_memcpy", 405, 10);
  launch(m, b, 390, 10, gpu, "gpu_memset", 420, 5);
  launch(m, b, 405, 5, gpu, "kernel", 430, 15);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "step"), "1");
  PARTS(t, 0, 15, 10, 5, 0, 30, 180, 35, 125, 400);
  assert_int_equal(mini_int(t, 0, "device_events"), 3);
  tg__table_free(t);
  mini_free(m);
}

/* Of 100 ns in labels 20 are of an operator and 10 of a runtime call; the eight parts count labels as the host's. */
static void test_time_in_labels(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 0, 200);
  mini_slice(m, a, "user_annotation", "batch", 50, 100);
  mini_slice(m, a, "user_annotation", "forward", 60, 80);
  mini_slice(m, a, "cpu_op", "aten::to", 70, 20);
  mini_slice(m, a, "cuda_runtime", "cudaGetDevice", 100, 10);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 0, 0, 0, 0, 10, 0, 90, 100, 200);
  assert_int_equal(mini_int(t, 0, "label_ns"), 70);
  assert_int_equal(mini_int(t, 0, "computation_ns"), 100);
  tg__table_free(t);
  mini_free(m);
}

static void test_call_of_the_step_itself(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 100, 300);
  launch(m, a, 130, 20, gpu, "kernel", 220, 8);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 8, 0, 0, 0, 20, 0, 0, 272, 300);
  tg__table_free(t);
  mini_free(m);
}

static void test_no_steps(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123), b = mini_thread(m, 1, 456), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "cpu_op", "aten::to", 100, 60);
  mini_slice(m, b, "cpu_op", "aten::nll_loss_backward", 300, 70);
  mini_slice(m, a, "user_annotation", "long before", 0, 1000); /* does not stretch the recording */
  launch(m, b, 310, 20, gpu, "kernel", 320, 100);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "step"), "0");
  PARTS(t, 0, 100, 0, 0, 0, 10, 0, 210, 0, 320);
  assert_int_equal(mini_int(t, 0, "start_ns"), 100);
  assert_true(t->note_count > 0);
  tg__table_free(t);
  mini_free(m);
}

static void test_no_steps_other_thread_idle(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123), b = mini_thread(m, 1, 456), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "cpu_op", "aten::to", 100, 60);
  mini_slice(m, b, "cpu_op", "aten::nll_loss_backward", 300, 70);
  launch(m, b, 310, 20, gpu, "kernel", 320, 100);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 100, 0, 0, 0, 10, 0, 70, 140, 320);
  tg__table_free(t);
  mini_free(m);
}

static void two_steps(struct mini *m, bool with_loose_work) {
  const uint32_t a = mini_thread(m, 1, 123), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 100, 200);
  mini_slice(m, a, "cpu_op", "aten::to", 200, 60);
  mini_slice(m, a, "user_annotation", "ProfilerStep#2", 350, 150);
  mini_slice(m, a, "cpu_op", "aten::mm", 360, 50);
  launch(m, a, 250, 5, gpu, "gpu_memcpy", 280, with_loose_work ? 100 : 40);
  launch(m, a, 400, 5, gpu, "kernel", 410, 200);
  if (with_loose_work) mini_slice(m, gpu, "kernel", "from before", 150, 90);
}

static void test_steps_with_room_between(void **state) {
  struct mini *m = mini_new();
  two_steps(m, false);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "steps", NULL);
  assert_int_equal(t->rows, 2);
  PARTS(t, 0, 0, 40, 0, 0, 5, 0, 55, 120, 220);
  PARTS(t, 1, 200, 0, 0, 0, 5, 0, 45, 10, 260);
  assert_int_equal(mini_int(t, 0, "host_ns"), 200);
  tg__table_free(t);
  t = mini_ask(trace, "steps", "by", "summary", NULL);
  assert_int_equal(mini_int(t, mini_row(t, "step", "mean"), "total_ns"), 240);
  assert_int_equal(mini_int(t, mini_row(t, "step", "std"), "total_ns"), 28); /* sqrt(800) = 28.28 */
  assert_int_equal(mini_int(t, mini_row(t, "step", "p50"), "total_ns"), 240);
  assert_int_equal(mini_int(t, mini_row(t, "step", "p90"), "total_ns"), 256); /* 220 + 0.9 × 40 */
  assert_int_equal(mini_int(t, mini_row(t, "step", "p99"), "kernel_ns"), 198);
  assert_int_equal(mini_int(t, mini_row(t, "step", "min"), "memcpy_ns"), 0);
  assert_int_equal(mini_int(t, mini_row(t, "step", "max"), "memcpy_ns"), 40);
  tg__table_free(t);
  t = mini_ask(trace, "steps", "step", "2", NULL);
  assert_int_equal(t->rows, 1);
  PARTS(t, 0, 200, 0, 0, 0, 5, 0, 45, 10, 260);
  tg__table_free(t);
  mini_free(m);
}

static void test_steps_that_overlap_on_the_device(void **state) {
  struct mini *m = mini_new();
  two_steps(m, true);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  assert_int_equal(t->rows, 2);
  PARTS(t, 0, 0, 100, 0, 0, 5, 0, 15, 20, 140);
  PARTS(t, 1, 200, 0, 0, 0, 5, 0, 25, 0, 230);
  tg__table_free(t);
  mini_free(m);
}

static void test_last_steps_without_kernel(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 100, 200);
  mini_slice(m, a, "user_annotation", "ProfilerStep#2", 300, 100);
  mini_slice(m, a, "user_annotation", "ProfilerStep#3", 400, 50);
  mini_slice(m, a, "cpu_op", "aten::to", 120, 10);
  mini_slice(m, gpu, "kernel", "from before", 90, 20);
  launch(m, a, 125, 5, gpu, "kernel", 150, 180);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "steps", NULL);
  assert_int_equal(t->rows, 1);
  assert_int_equal(mini_int(t, 0, "total_ns"), 220);
  assert_int_equal(mini_int(t, 0, "start_ns"), 110);
  tg__table_free(t);
  t = mini_ask(trace, "steps", "by", "annotation", NULL);
  assert_int_equal(t->rows, 3);
  assert_string_equal(mini_cell(t, 2, "name"), "ProfilerStep#3");
  assert_int_equal(mini_int(t, 2, "start_ns"), 400);
  assert_int_equal(mini_int(t, 2, "total_ns"), 50);
  assert_int_equal(mini_int(t, 2, "kernel_ns"), TG_NULL_INT);
  tg__table_free(t);
  mini_free(m);
}

static void test_host_only(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 123);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 100, 200);
  mini_slice(m, a, "user_annotation", "ProfilerStep#2", 300, 100);
  mini_slice(m, a, "cpu_op", "aten::to", 120, 10);
  mini_slice(m, a, "cpu_op", "aten::mm", 350, 40);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 0, 0, 0, 0, 0, 0, 10, 190, 200);
  PARTS(t, 1, 0, 0, 0, 0, 0, 0, 40, 60, 100);
  tg__table_free(t);
  mini_free(m);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void test_nccl(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1), b = mini_thread(m, 1, 2), gpu = mini_stream(m, 0, 7),
                 nccl = mini_stream(m, 0, 8);
  mini_slice(m, a, "user_annotation", "nccl:broadcast", 0, 75);
  mini_slice(m, a, "cpu_op", "aten::add_", 100, 20);
  mini_slice(m, b, "cpu_op", "nccl:all_reduce", 160, 75);
  mini_slice(m, nccl, "kernel", "ncclKernel_Broadcast_RING_LL", 16, 16);
  mini_slice(m, gpu, "kernel", "add", 130, 161);
  mini_slice(m, nccl, "kernel", "ncclKernel_AllReduce_RING_LL", 162, 1556);
  mini_slice(m, a, "cpu_op", "aten::empty", 0, 0); /* operators, not annotations, say where the recording begins */
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 105, 0, 0, 75, 0, 0, 20, 35, 235);
  expect_overlap(t, 0, 30, 75, 75, 55);
  tg__table_free(t);
  mini_free(m);
}

static void gloo(struct mini *m, bool with_device) {
  const uint32_t a = mini_thread(m, 1, 1), b = mini_thread(m, 1, 2), gpu = mini_stream(m, 0, 7);
  mini_slice(m, b, "cpu_op", "gloo:broadcast", 16, 38);
  mini_slice(m, b, "cpu_op", "gloo:broadcast", 25, 36);
  mini_slice(m, b, "cpu_op", "gloo:broadcast", 66, 18);
  mini_slice(m, b, "cpu_op", "gloo:all_reduce", 110, 18);
  mini_slice(m, b, "cpu_op", "gloo:all_reduce", 120, 36);
  mini_slice(m, a, "cpu_op", "aten::add_", 0, 20);
  if (with_device)
    mini_slice(m, gpu, "kernel", "mul", 30, 101);
  else
    mini_slice(m, a, "cpu_op", "aten::mul", 30, 101);
}

static void test_gloo(void **state) {
  struct mini *m = mini_new();
  gloo(m, true);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 101, 0, 0, 39, 0, 0, 16, 0, 156);
  expect_overlap(t, 0, 31, 70, 39, 16);
  tg__table_free(t);
  mini_free(m);
  m = mini_new();
  gloo(m, false);
  t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 0, 0, 0, 109, 0, 0, 47, 0, 156);
  expect_overlap(t, 0, 47, 74, 35, 0);
  tg__table_free(t);
  mini_free(m);
}

/* ---- our own --------------------------------------------------------------------------------- */

/* The plugin forgot that nothing was left and began again with whole steps. */
static void test_kernel_over_the_whole_step(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  mini_slice(m, a, "user_annotation", "ProfilerStep#1", 0, 200);
  mini_slice(m, a, "cpu_op", "aten::mm", 10, 45);
  launch(m, a, 20, 5, gpu, "gpu_memset", 30, 5);
  mini_slice(m, gpu, "kernel", "long", 0, 200);
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  PARTS(t, 0, 200, 0, 0, 0, 0, 0, 0, 0, 200);
  tg__table_free(t);
  mini_free(m);
}

/* The copy of a step annotation on a device track is no step. */
static void test_device_annotations_are_no_steps(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
  for (int64_t i = 0; i < 3; i++) {
    mini_slice(m, a, "user_annotation",
               i == 0   ? "ProfilerStep#1"
               : i == 1 ? "ProfilerStep#2"
                        : "ProfilerStep#3",
               i * 100, 100);
    mini_slice(m, gpu, "gpu_user_annotation", "ProfilerStep#9", i * 100 + 10, 100);
    launch(m, a, i * 100 + 5, 5, gpu, "kernel", i * 100 + 20, 10);
  }
  struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
  assert_int_equal(t->rows, 3);
  for (size_t i = 0; i < 3; i++) PARTS(t, i, 10, 0, 0, 0, 5, 0, 0, 85, 100);
  tg__table_free(t);
  mini_free(m);
}

static void test_short_last_step_goes(void **state) {
  for (int last = 3; last <= 4; last++) { /* of 5: 60 % goes, 80 % stays */
    struct mini *m = mini_new();
    const uint32_t a = mini_thread(m, 1, 1), gpu = mini_stream(m, 0, 7);
    mini_slice(m, a, "user_annotation", "ProfilerStep#1", 0, 100);
    mini_slice(m, a, "user_annotation", "ProfilerStep#2", 100, 100);
    for (int i = 0; i < 5; i++) launch(m, a, i * 10, 2, gpu, "kernel", i * 10 + 5, 2);
    for (int i = 0; i < last; i++) launch(m, a, 100 + i * 10, 2, gpu, "kernel", 100 + i * 10 + 5, 2);
    struct tg_table *t = mini_ask(mini_finish(m), "steps", NULL);
    assert_int_equal(t->rows, last == 4 ? 2 : 1);
    tg__table_free(t);
    mini_free(m);
  }
}

/* An annotation taken as the step is the frame; the driver's calls count as runtime. */
static void test_annotation_as_step(void **state) {
  struct mini *m = mini_new();
  const uint32_t a = mini_thread(m, 1, 1);
  mini_slice(m, a, "user_annotation", "train_step", 0, 100);
  mini_slice(m, a, "cpu_op", "aten::mm", 10, 20);
  mini_slice(m, a, "cuda_driver", "cuLaunchKernel", 15, 5);
  struct tg__columns *trace = mini_finish(m);
  struct tg__step step = {
      .rank = 0, .slice = 0, .name = trace->slices.name[0], .number = 1, .start_ns = 0, .end_ns = 100};
  struct tg__step *kept = trace->steps;
  trace->steps = &step;
  trace->step_count = 1;
  trace->step_kind = trace->ranks[0].step_kind = TG__STEP_ANNOTATION;
  struct tg_table *t = mini_ask(trace, "steps", NULL);
  PARTS(t, 0, 0, 0, 0, 0, 5, 0, 15, 80, 100);
  tg__table_free(t);
  t = mini_ask(trace, "steps", "by", "whole", NULL);
  PARTS(t, 0, 0, 0, 0, 0, 5, 0, 15, 0, 20);
  tg__table_free(t);
  struct tg__breakdown b;
  assert_int_equal(tg__steps_breakdown(trace, 0, TG__STEPS_PROFILER, &b), TG_OK);
  assert_int_equal(b.source, TG__STEPS_RECORDING);
  assert_int_equal(b.window.start_ns, 10);
  assert_int_equal(b.window.end_ns, 30);
  tg__breakdown_free(&b);
  trace->steps = kept;
  trace->step_count = 0;
  mini_free(m);
}

static void test_nothing_to_divide(void **state) {
  struct mini *m = mini_new();
  mini_slice(m, mini_stream(m, 0, 7), "kernel", "alone", 0, 100);
  struct tg_table *t;
  struct tg_error e = {0};
  assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = mini_finish(m)}, "steps", NULL, 0, &t, &e), TG_NO_DATA);
  assert_non_null(strstr(e.text, "prof.step()"));
  mini_free(m);
}

static void test_out_of_memory(void **state) {
  struct mini *m = mini_new();
  two_steps(m, true);
  struct tg__columns *trace = mini_finish(m);
  struct tg__breakdown b;
  long n = 0;
  for (enum tg_err err = TG_MEMORY; err; n++) {
    tg__alloc_fail_after(n);
    err = tg__steps_breakdown(trace, 0, TG__STEPS_DETECTED, &b);
    tg__alloc_fail_after(-1);
    assert_true(err == TG_OK || err == TG_MEMORY);
    if (!err) assert_int_equal(b.steps[1].part_ns[TG__PART_KERNEL], 200);
    tg__breakdown_free(&b);
  }
  assert_true(n > 5);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_part),
      cmocka_unit_test(test_time_in_labels),
      cmocka_unit_test(test_call_of_the_step_itself),
      cmocka_unit_test(test_no_steps),
      cmocka_unit_test(test_no_steps_other_thread_idle),
      cmocka_unit_test(test_steps_with_room_between),
      cmocka_unit_test(test_steps_that_overlap_on_the_device),
      cmocka_unit_test(test_last_steps_without_kernel),
      cmocka_unit_test(test_host_only),
      cmocka_unit_test(test_nccl),
      cmocka_unit_test(test_gloo),
      cmocka_unit_test(test_kernel_over_the_whole_step),
      cmocka_unit_test(test_device_annotations_are_no_steps),
      cmocka_unit_test(test_short_last_step_goes),
      cmocka_unit_test(test_annotation_as_step),
      cmocka_unit_test(test_nothing_to_divide),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
