/* Tests of the questions tracks, events, losses and annotations, on traces written by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/mini_trace.h"

/* ---- tracks ---------------------------------------------------------------------------------- */

static void tracks(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 100, -5), gpu = mini_stream(m, 1, 7), empty = mini_thread(m, 100, 6);
  mini_slice(m, cpu, "cpu_op", "a", 10, 20); /* 10..30 */
  mini_slice(m, cpu, "cpu_op", "b", 25, 15); /* 25..40, overlaps a in part: a second lane */
  mini_slice(m, cpu, "cpu_op", "c", 50, 0);
  mini_slice(m, gpu, "kernel", "k", 5, 100);
  struct tg__track *track = mini_track(m, gpu);
  track->name = mini_text(m, "stream 7");
  track->pid_is_text = true, track->pid = mini_text(m, "Spans");
  struct tg_table *t = mini_ask(mini_finish(m), "tracks", NULL);
  assert_int_equal(t->rows, 3);
  assert_true(mini_int(t, 0, "rank") == TG_NULL_INT);
  assert_string_equal(mini_cell(t, 0, "kind"), "cpu");
  assert_string_equal(mini_cell(t, 0, "pid"), "100");
  assert_string_equal(mini_cell(t, 0, "tid"), "-5");
  assert_null(mini_cell(t, 0, "name"));
  assert_int_equal(mini_int(t, 0, "slices"), 3);
  assert_int_equal(mini_int(t, 0, "lanes"), 2);
  assert_int_equal(mini_int(t, 0, "first_ns"), 10);
  assert_int_equal(mini_int(t, 0, "last_ns"), 50);
  assert_int_equal(mini_int(t, 0, "busy_ns"), 30);
  assert_string_equal(mini_cell(t, 1, "kind"), "device");
  assert_string_equal(mini_cell(t, 1, "pid"), "Spans");
  assert_string_equal(mini_cell(t, 1, "name"), "stream 7");
  assert_int_equal(mini_int(t, 1, "busy_ns"), 100);
  assert_int_equal(mini_int(t, empty, "slices"), 0);
  assert_true(mini_int(t, empty, "first_ns") == TG_NULL_INT);
  assert_int_equal(mini_int(t, empty, "busy_ns"), 0);
  tg__table_free(t);
  mini_free(m);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void slices(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 2);
  const int outer = mini_slice(m, cpu, "cpu_op", "outer", 0, 100);
  const int first = mini_slice(m, cpu, "cpu_op", "first", 10, 30);
  const int inner = mini_slice(m, cpu, NULL, "inner", 15, 5);
  const int second = mini_slice(m, cpu, "cpu_op", "second", 50, 20);
  mini_cause(m, second, first);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "events", NULL);
  assert_int_equal(t->rows, 4);
  const size_t o = mini_row(t, "name", "outer"), f = mini_row(t, "name", "first"), i = mini_row(t, "name", "inner"),
               s = mini_row(t, "name", "second");
  assert_int_equal(mini_int(t, o, "self_ns"), 50);
  assert_int_equal(mini_int(t, f, "self_ns"), 25);
  assert_int_equal(mini_int(t, i, "self_ns"), 5);
  assert_int_equal(mini_int(t, o, "depth"), 0);
  assert_int_equal(mini_int(t, i, "depth"), 2);
  assert_true(mini_int(t, o, "parent") == TG_NULL_INT);
  assert_int_equal(mini_int(t, i, "parent"), mini_id(m, first));
  assert_int_equal(mini_int(t, s, "parent"), mini_id(m, outer));
  assert_int_equal(mini_int(t, s, "cause"), mini_id(m, first));
  assert_true(mini_int(t, f, "cause") == TG_NULL_INT);
  assert_int_equal(mini_int(t, i, "id"), mini_id(m, inner));
  assert_string_equal(mini_cell(t, o, "phase"), "X");
  assert_string_equal(mini_cell(t, o, "category"), "cpu_op");
  assert_null(mini_cell(t, i, "category"));
  tg__table_free(t);
  mini_free(m);
}

/* Every kind of value finds the column that holds it. */
static void args_as_columns(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 2);
  mini_slice(m, cpu, "cpu_op", "a", 0, 1);
  mini_arg_int(m, "whole", 5);
  mini_arg_int(m, "number", 2);
  mini_arg_str(m, "text", "x\"y");
  mini_arg_raw(m, "list", "[1,2]");
  mini_arg_int(m, "mixed", 7);
  mini_arg_int(m, "name", 1);
  mini_slice(m, cpu, "cpu_op", "b", 2, 1);
  mini_arg_dec(m, "number", 125, 2);
  mini_arg_str(m, "mixed", "seven");
  struct tg_table *t = mini_ask(mini_finish(m), "events", "args", "whole,number,text,list,mixed,name,never", NULL);
  assert_int_equal(t->column_count, 12 + 7);
  assert_int_equal(mini_int(t, 0, "whole"), 5);
  assert_true(mini_int(t, 1, "whole") == TG_NULL_INT);
  assert_true(mini_real(t, 0, "number") == 2.0);
  assert_true(mini_real(t, 1, "number") == 1.25);
  assert_string_equal(mini_cell(t, 0, "text"), "x\"y");
  assert_string_equal(mini_cell(t, 0, "list"), "[1,2]");
  assert_string_equal(mini_cell(t, 0, "mixed"), "7"); /* values of several kinds stand as JSON */
  assert_string_equal(mini_cell(t, 1, "mixed"), "\"seven\"");
  assert_string_equal(mini_cell(t, 0, "name"), "a");
  assert_int_equal(mini_int(t, 0, "args.name"), 1);
  assert_null(mini_cell(t, 0, "never"));
  tg__table_free(t);
  mini_free(m);
}

static void marks(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 2), other = mini_thread(m, 1, 3);
  mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', 30);
  mini_arg_int(m, "Bytes", -64);
  mini_mark(m, other, NULL, "thread_name", 'M', TG_NULL_INT);
  mini_mark(m, cpu, "ac2g", "ac2g", 's', 10);
  mini_step(m, 1, "step", 20, 40);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "events", "by", "mark", "args", "Bytes", NULL);
  assert_int_equal(t->rows, 3);
  assert_string_equal(mini_cell(t, 0, "phase"), "M"); /* those without a time come first */
  assert_true(mini_int(t, 0, "start_ns") == TG_NULL_INT);
  assert_int_equal(mini_int(t, 0, "track"), other);
  assert_string_equal(mini_cell(t, 1, "phase"), "s");
  assert_int_equal(mini_int(t, 2, "start_ns"), 30);
  assert_int_equal(mini_int(t, 2, "Bytes"), -64);
  assert_true(mini_int(t, 2, "dur_ns") == TG_NULL_INT && mini_int(t, 2, "parent") == TG_NULL_INT);
  tg__table_free(t);
  t = mini_ask(trace, "events", "by", "mark", "step", "1", NULL);
  assert_int_equal(t->rows, 1);
  tg__table_free(t);
  t = mini_ask(trace, "events", "by", "mark", "track", "1", NULL);
  assert_int_equal(t->rows, 1);
  tg__table_free(t);
  mini_free(m);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void losses(void **state) {
  (void)state;
  struct mini *m = mini_new();
  mini_rank(m, 0);
  mini_loss(m, TG__LOSS_cut_end, 1, 1234);
  mini_thread(m, 1, 1);
  mini_rank(m, 1);
  mini_loss(m, TG__LOSS_bent_control, 3, -1);
  struct tg_table *t = mini_ask(mini_finish(m), "losses", NULL);
  assert_int_equal(t->rows, 2);
  assert_int_equal(mini_int(t, 0, "rank"), 0);
  assert_string_equal(mini_cell(t, 0, "file"), "mini.json");
  assert_string_equal(mini_cell(t, 0, "loss"), "cut_end");
  assert_string_equal(mini_cell(t, 0, "kind"), "cut");
  assert_int_equal(mini_int(t, 0, "offset"), 1234);
  assert_int_equal(mini_int(t, 1, "rank"), 1);
  assert_string_equal(mini_cell(t, 1, "kind"), "bent");
  assert_int_equal(mini_int(t, 1, "count"), 3);
  assert_true(mini_int(t, 1, "offset") == TG_NULL_INT);
  tg__table_free(t);
  mini_free(m);
}

/* ---- annotations ----------------------------------------------------------------------------- */

static int launch(struct mini *m, uint32_t cpu, uint32_t gpu, int64_t at, int64_t device_ns) {
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", at, 2);
  mini_cause(m, mini_slice(m, gpu, "kernel", "k", at + 1000, device_ns), call);
  return call;
}

static void annotations(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), worker = mini_thread(m, 1, 2), other = mini_thread(m, 1, 3),
                 gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "user_annotation", "forward", 0, 100);
  mini_slice(m, cpu, "user_annotation", "backward", 100, 50);
  mini_slice(m, cpu, "user_annotation", "forward", 200, 130);
  mini_slice(m, cpu, "user_annotation", "inner", 210, 20);
  mini_slice(m, other, "user_annotation", "elsewhere", 0, 1000);
  mini_slice(m, gpu, "gpu_user_annotation", "forward", 1000, 40);
  launch(m, cpu, gpu, 0, 1);   /* at the very start of forward: inside */
  launch(m, cpu, gpu, 100, 2); /* at the end of forward, the start of backward */
  launch(m, worker, gpu, 120,
         4);                   /* autograd's worker, without annotations: counts for every thread that was inside one */
  launch(m, cpu, gpu, 215, 8); /* inside forward and inner */
  launch(m, other, gpu, 110, 16); /* a thread of its own annotations: counts only there */
  launch(m, cpu, gpu, 400, 32);   /* outside everything on its thread */
  struct tg_table *t = mini_ask(mini_finish(m), "annotations", "where", "side = 'cpu'", NULL);
  assert_int_equal(t->rows, 4);
  assert_string_equal(mini_cell(t, 0, "name"), "elsewhere"); /* largest total first */
  const size_t f = mini_row(t, "name", "forward");
  assert_int_equal(mini_int(t, f, "calls"), 2);
  assert_int_equal(mini_int(t, f, "total_ns"), 230);
  assert_int_equal(mini_int(t, f, "min_ns"), 100);
  assert_int_equal(mini_int(t, f, "max_ns"), 130);
  assert_true(mini_real(t, f, "mean_ns") == 115.0);
  assert_true(mini_real(t, f, "std_ns") == sqrt(450.0)); /* two deviations of 15 */
  assert_int_equal(mini_int(t, f, "device_ns"), 1 + 8);
  assert_int_equal(mini_int(t, mini_row(t, "name", "backward"), "device_ns"), 2 + 4);
  assert_int_equal(mini_int(t, mini_row(t, "name", "inner"), "device_ns"), 8);
  assert_int_equal(mini_int(t, mini_row(t, "name", "elsewhere"), "device_ns"), 16 + 4);
  tg__table_free(t);
  mini_free(m);
}

/* A worker with annotations of its own still works for the thread whose operators it differentiates, and for that
 * thread only. */
static void backward_on_another_thread(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), worker = mini_thread(m, 1, 2), other = mini_thread(m, 1, 3),
                 gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "user_annotation", "backward", 100, 100);
  mini_slice(m, other, "user_annotation", "elsewhere", 0, 1000);
  const int forward = mini_slice(m, cpu, "cpu_op", "aten::mm", 10, 5);
  mini_cause(m, mini_slice(m, worker, "cpu_op", "MmBackward0", 110, 40), forward);
  mini_slice(m, worker, "user_annotation", "nccl:all_reduce", 160, 20);
  launch(m, worker, gpu, 120, 1);
  launch(m, worker, gpu, 165, 2);
  launch(m, worker, gpu, 250, 4); /* after backward */
  struct tg_table *t = mini_ask(mini_finish(m), "annotations", NULL);
  assert_int_equal(mini_int(t, mini_row(t, "name", "backward"), "device_ns"), 1 + 2);
  assert_int_equal(mini_int(t, mini_row(t, "name", "nccl:all_reduce"), "device_ns"), 2);
  assert_int_equal(mini_int(t, mini_row(t, "name", "elsewhere"), "device_ns"), 0);
  tg__table_free(t);
  mini_free(m);
}

static void annotations_of_devices_and_ranks(void **state) {
  (void)state;
  struct mini *m = mini_new();
  for (int64_t rank = 0; rank < 2; rank++) {
    mini_rank(m, rank);
    mini_slice(m, mini_thread(m, 1, 1), "user_annotation", "step", 0, 10 + rank);
    mini_slice(m, mini_stream(m, 0, 7), "gpu_user_annotation", "step", 0, 20 + rank);
  }
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "annotations", NULL);
  assert_int_equal(t->rows, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(mini_int(t, i, "rank"), i / 2);
    assert_string_equal(mini_cell(t, i, "side"), i % 2 ? "gpu" : "cpu");
    assert_int_equal(mini_int(t, i, "total_ns"), (i % 2 ? 20 : 10) + i / 2);
    assert_true((mini_int(t, i, "device_ns") == TG_NULL_INT) == (i % 2 == 1));
    assert_true(isnan(mini_real(t, i, "std_ns")));
  }
  tg__table_free(t);
  t = mini_ask(trace, "annotations", "rank", "1", NULL);
  assert_int_equal(t->rows, 2);
  tg__table_free(t);
  mini_free(m);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void phases_without_memory(void **state) {
  static const char *const expected[] = {"data", "forward", "loss", "backward", "optimizer", "other"};
  static const double host_ns[] = {10, 20, 5, 30, 15, 20};
  (void)state;
  struct mini *m = mini_new();
  const uint32_t loop = mini_thread(m, 1, 2), autograd = mini_thread(m, 1, 3);
  mini_slice(m, loop, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10);
  mini_slice(m, loop, "cpu_op", "aten::linear", 15, 20);
  mini_slice(m, loop, "cpu_op", "aten::mse_loss", 40, 5);
  mini_slice(m, autograd, "cpu_op", "autograd::engine::evaluate_function: MseLossBackward0", 50, 30);
  mini_slice(m, loop, "user_annotation", "Optimizer.step#SGD.step", 85, 15);
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "phases", NULL);
  assert_int_equal(t->rows, 6);
  for (size_t i = 0; i < 6; i++) {
    assert_string_equal(mini_cell(t, i, "phase"), expected[i]);
    assert_true(mini_real(t, i, "host_ns") == host_ns[i] && mini_real(t, i, "share_pct") == host_ns[i]);
  }
  tg__table_free(t);
  assert_true(mini_starve(trace, "phases", NULL, 0) > 5);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tracks),
                                     cmocka_unit_test(slices),
                                     cmocka_unit_test(args_as_columns),
                                     cmocka_unit_test(marks),
                                     cmocka_unit_test(losses),
                                     cmocka_unit_test(annotations),
                                     cmocka_unit_test(backward_on_another_thread),
                                     cmocka_unit_test(annotations_of_devices_and_ranks),
                                     cmocka_unit_test(phases_without_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
